package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/configdump"
	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// differences has a sentence for each resource that the client has not, or has otherwise than its
// origin, and why it waits.
func (x *configOf) differences() (all []string) {
	for _, it := range x.client.GetGenericXdsConfigs() {
		if text := x.difference(it); text != "" {
			all = append(all, fmt.Sprintf("%s %q: %s", metrics.ShortName(it.GetTypeUrl()), it.GetName(), text))
		}
	}
	return append(all, x.waits...)
}

// difference is what the origin has otherwise; "": nothing.
func (x *configOf) difference(it *configdump.Item) string {
	origin := x.origin[resourceKey{it.GetTypeUrl(), it.GetName()}]
	if text := stateDifference(it); text != "" {
		return text
	}
	switch {
	case origin == nil && it.GetXdsConfig() != nil && x.types[it.GetTypeUrl()]:
		return "the client has it, and the origin does not"
	case origin == nil:
		return "" // nothing is known of it
	}
	switch status := origin.GetClientStatus(); status {
	case adminv3.ClientResourceStatus_NACKED:
		return "weir rejects what the origin sent last: " + oneLine(origin.GetErrorState().GetDetails())
	case adminv3.ClientResourceStatus_RECEIVED_ERROR:
		return "the origin reports an error: " + oneLine(origin.GetErrorState().GetDetails())
	case adminv3.ClientResourceStatus_DOES_NOT_EXIST, adminv3.ClientResourceStatus_TIMEOUT:
		if it.GetXdsConfig() != nil {
			return "the client has it, and the origin does not"
		}
		return ""
	}
	return bodyDifference(it.GetXdsConfig(), origin.GetXdsConfig())
}

// stateDifference says that the client has not accepted what weir has.
func stateDifference(it *configdump.Item) string {
	switch it.GetConfigStatus() {
	case statusv3.ConfigStatus_NOT_SENT:
		return "the client has not been sent it"
	case statusv3.ConfigStatus_ERROR:
		return fmt.Sprintf("the client rejected version %s: %s", it.GetVersionInfo(), oneLine(it.GetErrorState().GetDetails()))
	case statusv3.ConfigStatus_STALE:
		if it.GetVersionInfo() == "" {
			return "it has changed, and the client has not been sent the change"
		}
		return fmt.Sprintf("the client has not answered version %s", it.GetVersionInfo())
	}
	return ""
}

// bodyDifference says which field differs first, and how many others do.
func bodyDifference(client, origin *anypb.Any) string {
	if client == nil && origin != nil {
		return "the origin has it, and the client does not"
	}
	if client == nil || origin == nil {
		return "" // its type is unknown, or it is a secret
	}
	all := fieldChanges(nil, bodyTree(client), bodyTree(origin))
	if len(all) == 0 {
		return ""
	}
	more := ""
	if n := len(all) - 1; n > 0 {
		more = fmt.Sprintf(", and %s", admin.Plural(n, "other field"))
	}
	c := all[0]
	return fmt.Sprintf("%s is %s at the client and %s at the origin%s", c.Path, valueText(c.A, mostValue), valueText(c.B, mostValue), more)
}

// bodyTree is a body for fieldChanges.
func bodyTree(body *anypb.Any) any {
	text, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(body)
	if err != nil {
		return string(body.GetValue()) // it came as JSON, so this cannot happen
	}
	return tree(json.RawMessage(text))
}

// waitsOf says why a client waits, once for each reason.
func waitsOf(why *admin.Explanation) (all []string) {
	for i := range why.Streams {
		s := &why.Streams[i]
		for _, w := range s.Waits {
			text := fmt.Sprintf("%s waits (%s): %s", s.Type, w.Reason, oneLine(w.Text))
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// rows writes the resources of the client as a table.
func (x *configOf) rows(tw *tabular.Writer) error {
	tw.Row("TYPE", "NAME", "STATUS", "VERSION", "AT THE ORIGIN", "DIFFERENCE")
	for _, it := range x.client.GetGenericXdsConfigs() {
		color := tabular.Yellow
		switch it.GetConfigStatus() {
		case statusv3.ConfigStatus_SYNCED:
			color = tabular.Green
		case statusv3.ConfigStatus_ERROR:
			color = tabular.Red
		}
		tw.Row(metrics.ShortName(it.GetTypeUrl()), it.GetName(), tabular.Cell{Value: it.GetConfigStatus(), Color: color}, it.GetVersionInfo(),
			x.origin[resourceKey{it.GetTypeUrl(), it.GetName()}].GetVersionInfo(), colored(x.difference(it), true, tabular.Yellow))
	}
	return tw.Flush()
}

// membership is a group that serves a client.
type membership struct{ origin, key string }

// is reports whether a client_scope of client status is of the group. What an origin has is the
// newest tier's.
func (m membership) is(scope string) bool {
	rest, is := strings.CutPrefix(scope, "origin/"+m.origin+"/")
	key, _, _ := strings.Cut(rest, "/")
	own, _ := relay.CutTier(m.key)
	return is && key == own
}

// members returns the groups that serve the client. The error of several clients says how to
// choose.
func (x *configOf) members(ctx context.Context, o *operator, node string) (all []membership, _ error) {
	body, err := o.clients(ctx, url.Values{"node": {node}}, statusStreams)
	if err != nil {
		return nil, err
	}
	var list clientList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, notUnderstood(err)
	}
	var clusters, peers, others []string
	for i := range list.Clients {
		c := &list.Clients[i]
		if c.NodeID != node { // NODE was taken for a pattern
			continue
		}
		if x.cluster != "" && c.NodeCluster != x.cluster {
			others = append(others, c.NodeCluster)
			continue
		}
		clusters, peers = append(clusters, c.NodeCluster), append(peers, c.Peer)
		all = append(all, membership{c.Origin, c.Group})
		for _, t := range c.Types {
			for _, g := range t.Parts {
				all = append(all, membership{g.Origin, g.Group})
			}
		}
	}
	clusters, peers, others = distinct(clusters), distinct(peers), distinct(others)
	switch {
	case len(clusters) == 0 && len(others) > 0:
		return nil, fmt.Errorf("no client with the node id %q has the cluster %q; those with this id have %s", node, x.cluster, strings.Join(others, ", "))
	case len(clusters) == 0:
		return nil, o.unknownClient(ctx, node)
	case len(clusters) > 1:
		return nil, fmt.Errorf("clients of %d clusters have the node id %q; choose one: --cluster %s", len(clusters), node, strings.Join(clusters, ", --cluster "))
	case len(peers) > 1:
		x.notes = append(x.notes, fmt.Sprintf("note: %d connections have the node id %q, from %s; each resource is shown with the worst of their states",
			len(peers), node, strings.Join(peers, ", ")))
	}
	return all, nil
}

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// mostNearest is how many names an error suggests.
const mostNearest = 3

// unknownClient is the error of a node id that no client has. It has those that are nearest.
func (o *operator) unknownClient(ctx context.Context, node string) error {
	err := fmt.Errorf("no client with the node id %q is connected", node)
	body, failed := o.clients(ctx, url.Values{}, clientsPage)
	var list clientList
	if failed != nil || json.Unmarshal(body, &list) != nil {
		return err
	}
	var known []string
	for i := range list.Clients {
		known = append(known, list.Clients[i].NodeID)
	}
	known = distinct(known)
	var near []string
	for len(near) < mostNearest {
		next, ok := config.Nearest(node, known)
		if !ok {
			break
		}
		near = append(near, next)
		known = slices.DeleteFunc(known, func(k string) bool { return k == next })
	}
	switch {
	case len(near) == 1:
		return fmt.Errorf("%w; did you mean %s?", err, near[0])
	case len(near) > 0:
		return fmt.Errorf("%w; the nearest are %s", err, strings.Join(near, ", "))
	case len(known) == 0:
		return errors.New("no client is connected")
	}
	return fmt.Errorf("%w; weir clients lists those that are", err)
}

// groupIDs returns the node ids that the groups present to their origins.
func groupIDs(ctx context.Context, o *operator, members []membership) (ids []string, _ error) {
	var known struct {
		Groups []admin.Group `json:"groups"`
	}
	if err := o.get(ctx, "/groups", &known); err != nil {
		return nil, err
	}
	for i := range known.Groups {
		g := &known.Groups[i]
		if slices.ContainsFunc(members, func(m membership) bool { return m.origin == g.Origin && m.is("origin/"+g.Origin+"/"+g.Key+"/") }) {
			ids = append(ids, g.NodeID)
		}
	}
	return distinct(ids), nil
}
