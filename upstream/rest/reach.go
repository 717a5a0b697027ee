package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-xds/weir/upstream"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
)

const (
	// As in package upstream: how long the first client has until we ask the origin ourselves, and
	// how often we look whether clients still ask an origin that answers none of them.
	reachAfter, reachAgain = time.Second, time.Second
)

// reach polls for the types of Config.Reach, one after the other, until the origin has answered
// somebody. Otherwise nobody would know whether it answers before a client comes, and clients may
// come only after that is known. The table knows nothing of it: what is answered is dropped. While
// there are lanes they find out, and this waits. It ends with ctx.
func (o *Origin) reach(ctx context.Context) {
	types := slices.DeleteFunc(slices.Clone(o.cfg.Reach), func(typeURL string) bool { return !o.table.Serves(typeURL) })
	turn := 0
	for wait := reachAfter; len(types) > 0 && upstream.Sleep(ctx, wait) && !o.health.everHeard(); {
		own, cancel := context.WithCancel(ctx)
		if o.unasked(cancel) {
			wait = o.reachOnce(own, types[turn%len(types)], turn/len(types))
			turn++
		} else {
			wait = reachAgain
		}
		cancel()
	}
}

// unasked reports whether there are no lanes. Then cancel is called when one comes.
func (o *Origin) unasked(cancel context.CancelFunc) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endReach = cancel
	return len(o.lanes) == 0
}

// reachOnce is one poll, after so many rounds that failed. It returns how long to wait before the
// next.
func (o *Origin) reachOnce(ctx context.Context, typeURL string, rounds int) time.Duration {
	begun := time.Now()
	s, again, _ := o.servers.choose(begun, nil, func() bool { return true })
	if s == nil {
		return time.Until(again)
	}
	a, err := o.ask(ctx, s, typeURL, nil, &discoveryv3.DiscoveryRequest{Node: o.table.OwnNode(), TypeUrl: typeURL})
	if err == nil && a.unchanged {
		err = &failure{fault: ownFault, reason: upstream.FailedBadResponse, err: errors.New(s.url + " answers 304 to a poll without a version")}
	}
	if err == nil {
		if _, err = o.parse(ctx, typeURL, a.body); err != nil {
			err = &failure{fault: unclear, reason: upstream.FailedBadResponse, err: errors.New("a response of " + s.url + " " + err.Error())}
		}
	}
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		o.servers.gaveUp(s)
		return 0
	case err == nil:
		o.servers.answered(s, false)
		if o.health.heard(now, nil, false) {
			o.log.Info("the origin answers", zap.String("url", s.url))
		}
		return 0
	}
	var f *failure
	errors.As(err, &f)
	if bad := f.code == http.StatusBadRequest || f.code == http.StatusUnprocessableEntity; bad && o.table.OwnNode().GetCluster() == "" {
		err = fmt.Errorf("%w (weir asks until a client does, with a node that has no cluster; see origins[].node.cluster, or ready.types)", err)
	}
	o.counts.Failure(f.why())
	blamed := o.servers.failed(s, begun, f.fault)
	if o.health.failed(now, nil, err) {
		o.log.Warn("the origin gives no answer", zap.Error(err))
	}
	if blamed {
		return 0 // choose says how long to wait
	}
	return o.cfg.Backoff.Wait(rounds)
}
