package csds

import (
	"context"
	"errors"
	"fmt"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// errTooLong says that the answer exceeds its bound.
var errTooLong = errors.New("the answer is too long")

// answer is a response while it is built.
type answer struct {
	cfg   *Config
	ctx   context.Context
	match nodeMatch
	bare  bool // without resource contents

	response *statusv3.ClientStatusResponse
	size     int
	seen     map[*xds.Variant]*anypb.Any // bodies as they are shown
}

// itemKey identifies an item of a ClientConfig (CSDS-2).
type itemKey struct{ typeURL, name string }

// view is a ClientConfig while it is built.
type view struct {
	config *statusv3.ClientConfig
	at     map[itemKey]int // index in its items
	rank   []uint8         // of its items: a greater rank replaces a lesser one
}

// clients adds the server view.
func (a *answer) clients() error {
	views := map[string]*view{}
	for c := range a.cfg.Clients().Connected() {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		node := c.Node()
		if !a.match.matches(node) {
			continue
		}
		key := clientKey(c)
		v := views[key]
		if v == nil {
			var err error
			if v, err = a.view(node, ""); err != nil {
				return err
			}
			views[key] = v
		}
		var failed error
		c.Items(func(it *downstream.Item) bool {
			failed = a.add(v, itemKey{it.TypeURL, it.Name}, uint8(it.Status), func() *item { return a.sent(it) })
			return failed == nil
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// clientKey is equal for the streams of one node, which may have one for each type. Without an id
// each connection is a node.
func clientKey(c *downstream.Client) string {
	if c.ID() == "" {
		return "\x00" + c.Peer
	}
	return fmt.Sprintf("%d %s%s", len(c.ID()), c.ID(), c.Cluster())
}

// lanes adds the client view.
func (a *answer) lanes() error {
	for _, o := range a.cfg.Table.Origins() {
		lanes := inspect.Lanes(o)
		for i := range lanes {
			l := &lanes[i]
			if err := a.ctx.Err(); err != nil {
				return err
			}
			g := l.Lane.Group()
			if !a.match.matches(g.Node()) {
				continue
			}
			v, err := a.view(g.Node(), fmt.Sprintf("origin/%s/%s/%s", o.Name(), g.Key(), l.Name))
			if err != nil {
				return err
			}
			l.Items(func(it inspect.AskedItem) {
				if err == nil {
					err = a.add(v, itemKey{it.TypeURL, it.Name}, uint8(it.Status), func() *item { return a.asked(&it) })
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// view adds a ClientConfig.
func (a *answer) view(node *corev3.Node, scope string) (*view, error) {
	v := &view{config: &statusv3.ClientConfig{Node: node, ClientScope: scope}, at: map[itemKey]int{}}
	a.response.Config = append(a.response.Config, v.config)
	return v, a.grow(v.config)
}

// add adds an item, unless the view has one with the same key and at least the same rank.
func (a *answer) add(v *view, key itemKey, rank uint8, made func() *item) error {
	i, known := v.at[key]
	if known && v.rank[i] >= rank {
		return nil
	}
	it := made()
	if known {
		v.rank[i], v.config.GenericXdsConfigs[i] = rank, it
	} else {
		v.at[key] = len(v.rank)
		v.rank, v.config.GenericXdsConfigs = append(v.rank, rank), append(v.config.GenericXdsConfigs, it)
	}
	return a.grow(it)
}

// grow counts the size of what was added.
func (a *answer) grow(m proto.Message) error {
	if a.size += 1 + protowire.SizeBytes(proto.Size(m)); a.size > a.cfg.maxAnswer {
		return errTooLong
	}
	return nil
}

// body returns the content of a resource as it is shown; nil: it is not shown.
func (a *answer) body(v *xds.Variant) *anypb.Any {
	if v == nil || a.bare {
		return nil
	}
	body, known := a.seen[v]
	if !known {
		body = &anypb.Any{}
		if proto.Unmarshal(v.Any(), body) != nil {
			return nil // cannot happen: the table checked it
		}
		a.cfg.Blank(body)
		a.seen[v] = body
	}
	return body
}

// refusal returns the status of a request without an answer.
func (s *Server) refusal(err error) error {
	if !errors.Is(err, errTooLong) {
		return status.FromContextError(err).Err()
	}
	return status.Errorf(codes.ResourceExhausted, "the answer is longer than %d bytes: ask for fewer nodes with node_matchers, by node_id or "+
		"node_metadatas, or for all without what the resources contain, with exclude_resource_contents", s.cfg.maxAnswer)
}

type item = statusv3.ClientConfig_GenericXdsConfig

var configStatus = map[relay.ItemStatus]statusv3.ConfigStatus{
	relay.ItemSynced: statusv3.ConfigStatus_SYNCED, relay.ItemNotSent: statusv3.ConfigStatus_NOT_SENT,
	relay.ItemStale: statusv3.ConfigStatus_STALE, relay.ItemRefused: statusv3.ConfigStatus_ERROR,
}

var clientStatus = map[inspect.AskedStatus]adminv3.ClientResourceStatus{
	inspect.AskedRequested: adminv3.ClientResourceStatus_REQUESTED, inspect.AskedHeld: adminv3.ClientResourceStatus_ACKED,
	inspect.AskedAbsent: adminv3.ClientResourceStatus_DOES_NOT_EXIST, inspect.AskedTimeout: adminv3.ClientResourceStatus_TIMEOUT,
	inspect.AskedError: adminv3.ClientResourceStatus_RECEIVED_ERROR, inspect.AskedRefused: adminv3.ClientResourceStatus_NACKED,
}

// sent returns an item of the server view (CSDS-3).
func (a *answer) sent(it *downstream.Item) *item {
	x := &item{
		TypeUrl: it.TypeURL, Name: it.Name, VersionInfo: it.Version, LastUpdated: at(it.Updated),
		ConfigStatus: configStatus[it.Status], XdsConfig: a.body(it.Body),
	}
	if it.Status == relay.ItemRefused {
		x.ErrorState = &adminv3.UpdateFailureState{
			LastUpdateAttempt: at(it.Nack.At), Details: it.Nack.Message, VersionInfo: it.Version,
		}
	}
	return x
}

// asked returns an item of the client view (CSDS-4).
func (a *answer) asked(it *inspect.AskedItem) *item {
	x := &item{
		TypeUrl: it.TypeURL, Name: it.Name, VersionInfo: it.Version, LastUpdated: at(it.Updated),
		ClientStatus: clientStatus[it.Status], XdsConfig: a.body(it.Body),
	}
	if it.Status == inspect.AskedRefused || it.Status == inspect.AskedError || it.Why != "" {
		x.ErrorState = &adminv3.UpdateFailureState{LastUpdateAttempt: at(it.WrongAt), Details: it.Why}
	}
	return x
}

func at(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
