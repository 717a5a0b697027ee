package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// reconfigured puts a configuration into force.
func reconfigured(t *testing.T, table *Table, cfg Config) *Change {
	t.Helper()
	n, err := table.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := n.Commit(time.Unix(1e9, 0))
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReconfigureOrigins: an origin keeps its part of the table for as long as what changes matters
// to what comes alone. Anything else gives it another, and the one before ends, as that of an
// origin that is removed does; no other is touched.
func TestReconfigureOrigins(t *testing.T) {
	base := OriginConfig{Name: "mesh", GroupBy: []string{"cluster"}, Authorities: []string{"a"}}
	for name, row := range map[string]struct {
		change func(*OriginConfig)
		ends   bool
	}{
		"nothing":         {func(*OriginConfig) {}, false},
		"dialect":         {func(c *OriginConfig) { c.SotW = true }, false},
		"resume":          {func(c *OriginConfig) { c.NoResume = true }, false},
		"authorities":     {func(c *OriginConfig) { c.Authorities = []string{"b"} }, false},
		"absence_timer":   {func(c *OriginConfig) { c.AbsenceTransient = true }, false},
		"on_data_error":   {func(c *OriginConfig) { c.DropOnDataError = true }, false},
		"absence_keeps":   {func(c *OriginConfig) { c.AbsenceKeeps = []string{xds.EndpointType} }, false},
		"no types":        {func(c *OriginConfig) { c.Types = []string{} }, false},
		"types":           {func(c *OriginConfig) { c.Types = []string{xds.ClusterType} }, true},
		"group_by":        {func(c *OriginConfig) { c.GroupBy = nil }, true},
		"identity_to":     {func(c *OriginConfig) { c.IdentityTo = "WHO" }, true},
		"node.id":         {func(c *OriginConfig) { c.NodeID = "x" }, true},
		"node.cluster":    {func(c *OriginConfig) { c.NodeCluster = "x" }, true},
		"version_mode":    {func(c *OriginConfig) { c.OriginVersions = true }, true},
		"hash":            {func(c *OriginConfig) { c.CanonicalHash = true }, true},
		"secrets":         {func(c *OriginConfig) { c.Secrets = true }, true},
		"glob":            {func(c *OriginConfig) { c.RecursiveGlobs = true }, true},
		"ttl_unsupported": {func(c *OriginConfig) { c.WithholdTTL = true }, true},
		"tp2":             {func(c *OriginConfig) { c.TP2 = true }, true},
		"canary":          {func(c *OriginConfig) { c.Canary = &node.Canary{Share: 0.5} }, false},
		"from_node":       {func(c *OriginConfig) { c.TP2, c.FromNode = true, map[string]string{"env": "metadata.env"} }, true},
		"nothing mapped":  {func(c *OriginConfig) { c.FromNode = map[string]string{} }, false},
		"otherwise":       {func(c *OriginConfig) { c.IgnoreParams = true }, true},
		"urgent":          {func(c *OriginConfig) { c.Urgent = []string{xds.ListenerType} }, false},
		"aggregated":      {func(c *OriginConfig) { c.PerType = true }, true},
		"name":            {func(c *OriginConfig) { c.Name = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			beside := OriginConfig{Name: "beside", Authorities: []string{"c"}}
			table, err := New(Config{Origins: []OriginConfig{base, beside}})
			if err != nil {
				t.Fatal(err)
			}
			part, untouched := table.Origin("mesh"), table.Origin("beside")
			next := base
			row.change(&next)
			c := reconfigured(t, table, Config{Origins: []OriginConfig{next, beside}})
			if c.Ended(part) != row.ends || (table.Origin(next.Name) != part) != row.ends {
				t.Errorf("its part has ended: %v, want %v", c.Ended(part), row.ends)
			}
			if c.Ended(untouched) || table.Origin("beside") != untouched || c.Moved("c") {
				t.Error("the origin beside it has changed")
			}
			if c.Dialect(part) != (name == "dialect") || c.Dialect(untouched) {
				t.Errorf("its dialect has changed: %v", c.Dialect(part))
			}
			if c.Regrouped(part) != (name == "canary") || c.Regrouped(untouched) {
				t.Errorf("its clients belong in other groups: %v", c.Regrouped(part))
			}
		})
	}
}

// TestReconfigureRoutes: which authorities are another origin's, or nobody's, is told of each
// (FED-1, FED-2).
func TestReconfigureRoutes(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "x", Authorities: []string{"stays", "leaves", "goes"}}, {Name: "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := table.Origin("x"), table.Origin("y")
	c := reconfigured(t, table, Config{Origins: []OriginConfig{{Name: "x", Authorities: []string{"stays"}}, {Name: "y", Authorities: []string{"leaves", "comes"}}}})
	for authority, want := range map[string]struct {
		origin *Origin
		moved  bool
	}{"stays": {x, false}, "leaves": {y, true}, "goes": {nil, true}, "comes": {y, true}, "never": {nil, false}} {
		if table.Authority(authority) != want.origin || c.Moved(authority) != want.moved {
			t.Errorf("%q: moved %v, want %v", authority, c.Moved(authority), want.moved)
		}
	}
}

// TestPrepareRefuses: what is wrong is told, and nothing of it is in force; nor is what is right
// before Commit.
func TestPrepareRefuses(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	part := table.Origin("mesh")
	for want, cfg := range map[string]Config{
		"at least one":     {},
		"name: is part of": {Name: "other", Origins: []OriginConfig{{Name: "mesh"}}},
		"is used twice":    {Origins: []OriginConfig{{Name: "new"}, {Name: "new"}}},
		"must not be":      {Settle: -1, Origins: []OriginConfig{{Name: "new"}}},
		"is none of":       {Origins: []OriginConfig{{Name: "new", GroupBy: []string{"weather"}}}},
		"origins[0].identity_to: \"metadata.WHO\" has the identity, and is in group_by": {Origins: []OriginConfig{{
			Name: "new", GroupBy: []string{"metadata.WHO"}, IdentityTo: "WHO",
		}}},
		"cannot be the parameter \"env\"": {Origins: []OriginConfig{{
			Name: "new", IdentityTo: "WHO", TP2: true, FromNode: map[string]string{"env": "metadata.WHO.env"},
		}}},
		"is already one of": {Origins: []OriginConfig{{Name: "new", Authorities: []string{"a"}}, {Name: "mesh", Authorities: []string{"a"}}}},
	} {
		if _, err := table.Prepare(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
	n, err := table.Prepare(Config{Linger: time.Hour, Origins: []OriginConfig{{Name: "mesh", SotW: true}, {Name: "new", Authorities: []string{"a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if n.Origin("mesh") != part || n.Origin("new") == nil || n.routes.authorities["a"] != n.Origin("new") {
		t.Error("the next configuration does not have its origins")
	}
	if table.Origin("mesh") != part || part.SotW() || table.Origin("new") != nil || table.Authority("a") != nil || table.config().Linger != time.Minute {
		t.Error("it is in force before Commit")
	}
}

// TestEndedOriginKeepsNothing: what an origin's part held goes with its last client once it has
// ended, and what had retired before at once: an origin that has the name later may be another
// (FED-4).
func TestEndedOriginKeepsNothing(t *testing.T) {
	now := time.Unix(1e9, 0)
	cfg := Config{Linger: time.Second, Origins: []OriginConfig{{Name: "mesh"}, {Name: "beside"}}}
	table, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	held, lanes := map[string]*Sub{}, []*Lane{}
	var groups []*Group
	for _, origin := range []string{"mesh", "beside"} {
		g, err := table.Origin(origin).Group(nil)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
		g.used.Store(true)
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true})
		sub.Update(now, []string{"retires", "held"}, nil)
		l := table.Origin(origin).TakeLanes()[0]
		l.Open(now, 1)
		l.Take(now, false)
		l.Apply(now, &xds.Update{TypeURL: xds.EndpointType, Resources: []xds.Resource{
			{Name: "retires", Version: "1", Any: []byte("r")}, {Name: "held", Version: "1", Any: []byte("h")},
		}})
		sub.Update(now, nil, []string{"retires"})
		held[origin], lanes = sub, append(lanes, l)
	}
	now = now.Add(time.Minute)
	table.Advance(now)
	for _, l := range lanes {
		l.Take(now, false)
		l.Close()
	}
	if n, _ := table.Retired(); n != 2 {
		t.Fatalf("%d entries have retired, want one of each origin", n)
	}
	mesh := table.Origin("mesh")
	reconfigured(t, table, Config{Linger: time.Second, Origins: cfg.Origins[1:]})
	if n, _ := table.Retired(); n != 1 {
		t.Errorf("%d entries are retired, want that of the origin that stays", n)
	}
	for _, sub := range held {
		sub.Close(now)
	}
	for _, g := range groups {
		g.Release(now)
	}
	if n := retiredNow(table, now.Add(time.Millisecond)); n != 1 {
		t.Errorf("%d entries are retired, want none more of the origin that has ended", n)
	}
	if table.Advance(now.Add(time.Minute)); len(mesh.groupList()) != 0 {
		t.Error("its group is still there")
	}
	if n := retiredNow(table, now.Add(time.Minute)); n != 2 {
		t.Errorf("%d entries are retired, want both of the origin that stays", n)
	}
}

func retiredNow(table *Table, now time.Time) int {
	table.Advance(now)
	n, _ := table.Retired()
	return n
}

// TestRetiredBoundsChange: fewer entries or bytes let go of what was unused longest, at once; none
// keep nothing; more is more again.
func TestRetiredBoundsChange(t *testing.T) {
	r := newRetirement(nil)
	r.bound(10, 10_000)
	fill := func() {
		for i := range 5 {
			r.add(retiredKey{name: string(rune('a' + i))}, []*xds.Variant{xds.NewVariant(&xds.Provenance{TypeURL: xds.EndpointType}, &xds.Resource{Name: "x", Any: make([]byte, 300)}, "")}, false)
		}
	}
	fill()
	for _, row := range []struct{ entries, bytes, want int }{{10, 10_000, 5}, {3, 10_000, 3}, {3, 700, 2}, {0, 10_000, 0}} {
		r.bound(row.entries, row.bytes)
		if n, bytes := r.size(); n != row.want || bytes > row.bytes {
			t.Errorf("%+v: %d entries of %d bytes", row, n, bytes)
		}
	}
	if fill(); len(r.lru.Keys()) != 0 {
		t.Error("something was kept where nothing is to be")
	}
	r.bound(10, 10_000)
	if fill(); len(r.lru.Keys()) != 5 {
		t.Errorf("%d entries are kept, want all 5 again", len(r.lru.Keys()))
	}
}

// TestServerNumbers: a server has one number for as long as the table lives, and no two share one
// but after 254 others (FED-7).
func TestServerNumbers(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, seen := table.Origin("mesh"), map[uint8]bool{}
	first := o.Server("first")
	for i := range 253 {
		n := o.Server(strings.Repeat("x", i))
		if n == 0 || n == first || seen[n] || o.Server(strings.Repeat("x", i)) != n {
			t.Fatalf("server %d has number %d", i, n)
		}
		seen[n] = true
	}
	if o.Server("first") != first || o.Server("another") != first || len(o.servers) != 254 || o.Servers()[first] != "another" {
		t.Error("the oldest number is not the one given out again, or is somebody's still")
	}
}
