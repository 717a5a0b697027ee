package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// Summary describes a content.
type Summary struct {
	Path       string    `json:"path"`
	Version    string    `json:"version"` // of the format
	Deployment string    `json:"deployment"`
	Created    time.Time `json:"created"`
	Bytes      int64     `json:"bytes"`
	Resources  int       `json:"resources"`
	// Key is what the key is called that the file is encrypted with; empty: it is in plain text.
	Key string `json:"key,omitempty"`
	// LeftOut is what is not in it, since it is in plain text.
	LeftOut LeftOut       `json:"left_out"`
	Origins []Origin      `json:"origins"`
	Types   []TypeSummary `json:"types"`
}

// TypeSummary describes one type of one group.
type TypeSummary struct {
	Origin    string            `json:"origin"`
	Group     string            `json:"group"`
	NodeID    string            `json:"node_id"`
	Identity  string            `json:"identity,omitempty"` // of the group's clients, where group_by has it
	TypeURL   string            `json:"type_url"`
	Params    string            `json:"params,omitempty"` // parameter map, canonical
	Resources int               `json:"resources"`
	Bytes     int64             `json:"bytes"` // of the bodies
	Expiring  int               `json:"expiring,omitempty"`
	Names     int               `json:"names,omitempty"` // by name, with or without a resource
	Sets      []SetSummary      `json:"sets,omitempty"`
	History   *HistorySummary   `json:"history,omitempty"`
	Listed    []ResourceSummary `json:"listed,omitempty"` // if asked for
}

// HistorySummary describes what was held before.
type HistorySummary struct {
	Changes int       `json:"changes"`
	Bytes   int64     `json:"bytes"` // of all that is written of it
	Oldest  time.Time `json:"oldest,omitzero"`
	Newest  time.Time `json:"newest,omitzero"`
}

// SetSummary describes a set, or the members that were found.
type SetSummary struct {
	Selector string `json:"selector"`
	Members  int    `json:"members"`
	Settled  bool   `json:"settled"`
}

// ResourceSummary describes a member or a name.
type ResourceSummary struct {
	Set     string    `json:"set,omitempty"`
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"` // the origin's
	Bytes   int       `json:"bytes,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Body is present only if asked for.
	Body *anypb.Any `json:"-"`
}

// Summary returns a summary; with list it lists every resource, sorted by name.
func (c *Content) Summary(list bool) Summary {
	s := Summary{
		Path: c.Report.Path, Version: fmt.Sprintf("%d.%d", c.Header.Major, c.Header.Minor), Deployment: c.Header.Deployment,
		Created: c.Header.Created, Bytes: c.Report.Bytes,
		Key: c.Report.Key, LeftOut: c.Report.LeftOut,
	}
	for _, name := range slices.Sorted(maps.Keys(c.origins)) {
		o := c.origin(name)
		o.Name = name
		s.Origins = append(s.Origins, o)
	}
	for key, shard := range c.shards {
		x, sets, err := shard.countedSets()
		if err != nil {
			continue // Check reports it
		}
		t := summaryOf(shard, &x, sets, list)
		t.History = c.historySummary(key)
		s.Resources += t.Resources
		s.Types = append(s.Types, t)
	}
	slices.SortFunc(s.Types, func(a, b TypeSummary) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Group, b.Group), xds.CompareTypes(a.TypeURL, b.TypeURL), cmp.Compare(a.Params, b.Params))
	})
	return s
}

func summaryOf(shard *shardRecords, x *relay.TypeImage, sets map[string]*keptSet, list bool) TypeSummary {
	t := TypeSummary{Origin: x.Origin, Group: x.Group, Identity: x.Identity, TypeURL: x.TypeURL, Params: x.Params.Key()}
	var node corev3.Node
	if proto.Unmarshal(x.Node, &node) == nil {
		t.NodeID = node.GetId()
	}
	for _, selector := range slices.Sorted(maps.Keys(sets)) {
		y := sets[selector]
		t.Sets = append(t.Sets, SetSummary{selector, y.found(), y.Settled && y.lacks(x) == nil})
	}
	for _, key := range slices.Sorted(maps.Keys(shard.items)) {
		record := shard.items[key]
		item, err := readItem(&record)
		if err != nil {
			continue
		}
		if !item.member {
			t.Names++
		}
		for i := range item.bodies {
			b := &item.bodies[i]
			t.Resources++
			t.Bytes += int64(len(b.Resource))
			if !b.Expires.IsZero() {
				t.Expiring++
			}
			if list {
				t.Listed = append(t.Listed, resourceOf(&item, b))
			}
		}
		if list && len(item.bodies) == 0 {
			t.Listed = append(t.Listed, ResourceSummary{Name: item.name.Name})
		}
	}
	return t
}

func resourceOf(item *itemImage, b *xds.BodyImage) ResourceSummary {
	r := ResourceSummary{Set: item.selector, Name: item.name.Name, Bytes: len(b.Resource), Expires: b.Expires}
	var m discoveryv3.Resource
	if proto.Unmarshal(b.Resource, &m) != nil {
		return r
	}
	if name := cmp.Or(m.GetName(), m.GetResourceName().GetName()); r.Name == "" {
		r.Name = name
	}
	r.Version, r.Body = m.GetVersion(), m.GetResource()
	return r
}

// historySummary describes the history of a shard; nil: there is none that can be read.
func (c *Content) historySummary(key string) *HistorySummary {
	h := c.histories[key]
	if h == nil {
		return nil
	}
	_, changes, err := h.changes(key)
	if err != nil || len(changes) == 0 {
		return nil // Check reports it
	}
	s := &HistorySummary{Changes: len(changes), Oldest: changes[0].At, Newest: changes[len(changes)-1].At}
	for _, r := range h.parts {
		s.Bytes += r.size()
	}
	return s
}

// Check returns all damages, as joined errors that name the file and the offset.
func (c *Content) Check() error {
	var errs []error
	for _, d := range c.Report.Damages {
		errs = append(errs, fmt.Errorf("%s: %s", c.Report.Path, d))
	}
	for _, key := range slices.Sorted(maps.Keys(c.shards)) {
		errs = append(errs, c.checkShard(c.shards[key])...)
	}
	for _, key := range slices.Sorted(maps.Keys(c.histories)) {
		if _, _, err := c.histories[key].changes(key); err != nil {
			errs = append(errs, fmt.Errorf("%s: the history of a type of a group: %w", c.Report.Path, err))
		}
	}
	if _, err := c.newest(); err != nil {
		errs = append(errs, fmt.Errorf("%s: the history: %w", c.Report.Path, err))
	}
	return errors.Join(errs...)
}

func (c *Content) checkShard(s *shardRecords) (errs []error) {
	fail := func(r *record, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: at offset %d, %d bytes: %s", c.Report.Path, r.offset, r.size(), fmt.Sprintf(format, args...)))
	}
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		r := s.items[key]
		item, err := readItem(&r)
		if err != nil {
			fail(&r, "%v", err)
		}
		for i := range item.bodies {
			if err := proto.Unmarshal(item.bodies[i].Resource, &discoveryv3.Resource{}); err != nil {
				fail(&r, "a resource does not decode: %s", strings.ReplaceAll(err.Error(), "\u00a0", " "))
			}
		}
	}
	if s.head.class != classShard {
		return append(errs, fmt.Errorf("%s: %d resources are of a type whose record is damaged", c.Report.Path, len(s.items)))
	}
	x, sets, err := s.countedSets()
	if err != nil {
		fail(&s.head, "%v", err)
		return errs
	}
	for _, selector := range slices.Sorted(maps.Keys(sets)) {
		if err := sets[selector].lacks(&x); err != nil {
			fail(&s.head, "%v", err)
		}
	}
	return errs
}

// An export is a file in plain text, without superseded records, and without secrets and resources
// that have a key in them: it is carried elsewhere.

// records yields the records of a content, in an order that depends on nothing else.
func (c *Content) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		there := func(r record) bool { return r.class == 0 || yield(r) }
		if !inOrder(c.origins, yield) || !there(c.revision) || !inOrder(c.marks, yield) {
			return
		}
		of := func(h *historyRecords) bool { return inOrder(h.parts, yield) && there(h.head) }
		if !inOrder(c.histories, of) {
			return
		}
		inOrder(c.shards, func(s *shardRecords) bool { return there(s.head) && inOrder(s.items, yield) })
	}
}

// inOrder calls f for the values of a map, by key, until it returns false.
func inOrder[V any](m map[string]V, f func(V) bool) bool {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !f(m[key]) {
			return false
		}
	}
	return true
}

// Export writes a file without superseded records. What it leaves out is gone from the content,
// too.
func (c *Content) Export(w io.Writer) (LeftOut, error) {
	left := c.strip()
	h := c.Header
	h.Major, h.Minor = formatMajor, formatMinor
	_, err := writeFile(w, &h, c.records(), left)
	return left, err
}

// ErrExists says that the directory has a snapshot already.
var ErrExists = errors.New("there is a snapshot already")

// Import makes a content the snapshot of a directory, atomically: encrypted, or else without
// secrets and resources that have a key in them. It refuses a directory that a running weir has
// locked, and, without force, one that has a snapshot. maxBytes is that of Config.
func (c *Content) Import(dir string, force bool, keys *Keys, maxBytes int64) (warning, err error) {
	d, warning, err := OpenDir(dir)
	if d != nil {
		defer d.Close()
	}
	switch {
	case err != nil:
		return warning, fmt.Errorf("%s: %w", dir, err)
	case Exists(dir) && !force:
		return warning, fmt.Errorf("%s: %w", File(dir), ErrExists)
	}
	l := log{files: disk{}, path: File(dir), deployment: c.Header.Deployment, keys: keys}
	l.bound = bound{files: l.files, path: l.path, max: maxBytes}
	defer l.close()
	return warning, l.rewrite(c)
}

// rewrite puts a content in place as a whole: encrypted, or else without what needs that.
func (l *log) rewrite(c *Content) error {
	left := c.Report.LeftOut
	if l.keys == nil {
		left = c.strip()
	}
	return l.replace(c.Header.Created, c.records(), left)
}
