package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

const (
	// reachAfter is how long the first client has until we ask the origin ourselves. What an origin
	// is asked should be its clients' questions alone where there are any, and those of a sidecar,
	// of a restored group, or of a weir that replaces another come at once.
	reachAfter = time.Second
	// reachAgain is how often we look whether clients still ask an origin that answers none of
	// them.
	reachAgain = time.Second
	// reachRest is the longest wait until an origin that reads our requests, and does not answer
	// them, is asked again.
	reachRest = 5 * time.Minute
)

// errSilent is the error of an origin that reads requests and does not answer them.
var errSilent = fmt.Errorf("no answer within %v: the origin may not know the node; "+
	"see origins[].node, origins[].group_by and ready.types", silenceAfter)

// reach asks the origin for the types of Config.Reach until it has answered somebody. Otherwise
// nobody would know whether it answers before a client comes, and clients may come only after that
// is known. The table knows nothing of it: what is answered is dropped. While there are lanes they
// find out, and this waits. It ends with ctx.
func (o *Origin) reach(ctx context.Context) {
	turns, silences := o.reachTurns(), waits{cfg: o.cfg.Backoff}
	silences.cfg.Max = max(silences.cfg.Max, reachRest)
	next := 0
	for wait := reachAfter; len(turns) > 0 && Sleep(ctx, wait) && !o.health.everHeard(); {
		own, cancel := context.WithCancel(ctx)
		if o.unasked(cancel) {
			var sl *slot
			if sl, wait = o.pool.reachSlot(own); sl != nil {
				if errors.Is(o.reachOnce(own, sl, turns[next%len(turns)]), errSilent) {
					wait = silences.next()
				}
				next++
			}
		} else {
			wait = reachAgain
		}
		cancel()
	}
}

// reachTurns are what is asked on one stream after the other: all types, and then each by itself,
// as the origin may end the stream for one of them. A stream of a type's own service has no other.
func (o *Origin) reachTurns() (turns [][]string) {
	all := slices.DeleteFunc(slices.Clone(o.cfg.Reach), func(typeURL string) bool { return !o.table.Serves(typeURL) })
	if !o.cfg.PerType && len(all) > 1 {
		turns = append(turns, all)
	}
	for _, typeURL := range all {
		turns = append(turns, []string{typeURL})
	}
	return turns
}

// unasked reports whether there are no lanes. Then cancel is called when one comes. It locks the
// origin.
func (o *Origin) unasked(cancel context.CancelFunc) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReach = cancel
	return len(o.lanes) == 0
}

// reachSlot gets a slot at the server that a new group would be asked at, or says how long to wait
// before the next attempt. It locks the pool.
func (p *pool) reachSlot(ctx context.Context) (*slot, time.Duration) {
	p.mu.Lock()
	s, again := p.choose(time.Now(), nil, true)
	p.mu.Unlock()
	if s == nil {
		return nil, time.Until(again)
	}
	return p.take(ctx, s)
}

// reachOnce asks in a slot, and takes note of the outcome. The slot is over then. It locks the
// origin.
func (o *Origin) reachOnce(ctx context.Context, sl *slot, typeURLs []string) error {
	node := o.table.OwnNode()
	err := o.ask(ctx, sl.conn, node, typeURLs)
	now, m := time.Now(), noMiss
	switch {
	case ctx.Err() != nil || errors.Is(err, errSilent):
	case err == nil:
		o.pool.proved(sl)
		o.health.heard(now, nil, false)
		o.rateLimitedLog.answered(now, sl.server.address)
	case refused(err):
		m = refusedBy
	default:
		m = unserved
	}
	o.pool.release(sl, m)
	if err != nil && ctx.Err() == nil {
		o.pool.failed(sl.server, nil, err, zap.String("address", sl.server.address),
			zap.String("node_id", node.GetId()), zap.String("node_cluster", node.GetCluster()))
	}
	o.mu.Lock()
	none := len(o.lanes) == 0
	o.mu.Unlock()
	o.pool.trim(none)
	return err
}

// ask asks for everything of some types on a stream of its own, and waits for an answer to one of
// them.
func (o *Origin) ask(ctx context.Context, c *conn, node *corev3.Node, typeURLs []string) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := o.newStream(own, cancel, c, nil, o.cfg.method(typeURLs[0]))
	if err != nil {
		return err
	}
	defer c.arrivals.Message() // whatever came was not for the lanes of the connection
	patience := time.AfterFunc(silenceAfter, cancel)
	defer patience.Stop()
	for i, typeURL := range typeURLs {
		m := o.cfg.everything(typeURL)
		if i == 0 || o.cfg.NodeAlways {
			introduce(m, node)
		}
		if wire.SendMsg(m) != nil {
			break // RecvMsg knows why
		}
	}
	var raw []byte
	switch err := wire.RecvMsg(&raw); {
	case err == nil:
	case own.Err() != nil && ctx.Err() == nil:
		return errSilent
	case errors.Is(err, io.EOF):
		return errEnded
	default:
		return err
	}
	return o.answers(raw, typeURLs)
}

// answers reports, by no error, whether a response reads well and is one to what was asked.
func (o *Origin) answers(raw []byte, typeURLs []string) (err error) {
	defer survive(&err)
	r, err := xds.ParseWithin(raw, !o.cfg.SotW, o.table.Elements())
	if err == nil && !slices.Contains(typeURLs, r.TypeURL) {
		err = fmt.Errorf("a response of type %q, which was not asked", printable(r.TypeURL))
	}
	if err != nil {
		return BadResponse(err)
	}
	return nil
}
