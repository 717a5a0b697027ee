package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// TestScriptsByCursor plays the scenarios with a cursor beside each Sub, on states that are made of the
// tables. Both say the same in all but those in testdata/cursor.list.
func TestScriptsByCursor(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	list, err := os.ReadFile("testdata/cursor.list")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && name[0] != '#' {
			left[name] = true
		}
	}
	same, answers := 0, 0
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		t.Run(name, func(t *testing.T) {
			differs, n := compareScript(t, f)
			switch answers += n; {
			case differs == "" && left[name]:
				t.Errorf("it is in testdata/cursor.list, and nothing differs")
			case differs == "":
				same++
			case !left[name]:
				t.Errorf("%s", differs)
			default:
				t.Log(differs)
			}
		})
		delete(left, name)
	}
	for name := range left {
		t.Errorf("testdata/cursor.list has %s, and there is no such scenario", name)
	}
	t.Logf("the same in %d of %d scenarios, %d answers", same, len(files), answers)
}

// compareScript plays a scenario, and says what the first difference is.
func compareScript(t *testing.T, file string) (differs string, answers int) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	s.states()
	c := &byCursor{script: s, clients: map[string]*cursorClient{}}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, " \n")
		if line == "" || line[0] == '#' || line[0] == ' ' {
			continue
		}
		f := strings.Fields(line)
		c.before(f)
		out := s.run(f)
		if got := c.after(f); got != nil {
			if answers++; !slices.Equal(got, out) && differs == "" {
				differs = fmt.Sprintf("line %d: after %q: a Sub says\n%s, and a cursor\n%s", number, line, strings.Join(out, "\n"), strings.Join(got, "\n"))
			}
		}
	}
	return differs, answers
}

// byCursor has a cursor for each client of a script.
type byCursor struct {
	*script
	group    *Group
	lanes    bool // one was opened or lost, and time has passed
	newest   *values.State
	clients  map[string]*cursorClient
	interest cursor.Interest[*cursorClient]
}

type cursorClient struct {
	*cursor.Cursor
	shard  *shard
	spaces map[string]bool
	last   *cursor.Answer
	asks   []cursor.Name
	woken  bool // since it took last
}

// before is what has to be noted before a line is done.
func (c *byCursor) before(f []string) {
	if c.group != c.script.group {
		c.group = c.script.group
		c.newest = c.group.line.Newest()
		clear(c.clients)
	}
}

// after does with the cursors what a line did with the Subs. It is what a cursor answers to `take`.
func (c *byCursor) after(f []string) []string {
	c.before(f)
	was, is := c.newest, c.group.line.Newest()
	c.lanes = c.lanes || was.Lanes != is.Lanes
	for client := range c.interest.Concerned(was, is) {
		client.woken = true
	}
	c.newest = is
	if f[0] == "open" {
		c.opened(f[1:])
		return nil
	}
	client := c.clients[f[0]]
	if client == nil || len(f) < 2 {
		return nil
	}
	for name, e := range client.shard.named.entries {
		if client.shard.named.silentOf(e) {
			client.Silent(0, name)
		}
	}
	names := func() (all []cursor.Name) {
		for _, name := range f[2:] {
			all = append(all, client.shard.cursorName(name, client.spaces))
		}
		return all
	}
	if f[1] != "take" {
		client.woken = true
		defer c.register(client, f, names)
	}
	switch f[1] {
	case "+":
		for _, n := range names() {
			client.Subscribe(0, n)
		}
		client.Requested(c.now)
	case "-":
		for _, n := range names() {
			client.Unsubscribe(0, n.Name)
		}
		client.Requested(c.now)
	case "=":
		client.Replace(0, names())
		client.Requested(c.now)
	case "namespaces":
		for _, name := range f[2:] {
			client.spaces[xds.NameKey(name)] = true
		}
	case "owe":
		client.Owe(f[2:]...)
		client.Requested(c.now)
	case "owe-namespaces":
		client.OweHosts(func(name string) bool {
			i := strings.LastIndexByte(name, '/')
			return slices.Contains(f[2:], name) || i >= 0 && slices.Contains(f[2:], name[:i])
		})
		client.Requested(c.now)
	case "ack", "nack":
		if client.last != nil {
			client.Ack(client.last.Number, f[1] == "ack")
		}
	case "unreached":
		client.Unreached(0)
	case "close":
		delete(c.clients, f[0])
	case "take":
		return c.take(c.subs[f[0]], client)
	}
	return nil
}

// register notes what a client asks for now.
func (c *byCursor) register(client *cursorClient, f []string, names func() []cursor.Name) {
	switch f[1] {
	case "=":
		for _, n := range client.asks {
			c.interest.Drop(client, client.TypeURL, n)
		}
		client.asks = nil
		fallthrough
	case "+":
		for _, n := range names() {
			c.interest.Add(client, client.TypeURL, n)
			client.asks = append(client.asks, n)
		}
	}
}

func (c *byCursor) opened(f []string) {
	sub := c.subs[f[0]].Sub
	cfg := cursor.Config{
		TypeURL: sub.typeURL, Delta: sub.delta, TTL: sub.ttl, Withhold: c.cfg.Origins[0].WithholdTTL, Version: sub.version, Holds: sub.holds,
		OriginVersions: c.cfg.Origins[0].OriginVersions, Patience: silence, Cold: 10 * time.Second, Began: c.now, Unreachable: c.group.origin.unreachable,
	}
	for _, w := range f {
		if of, is := strings.CutPrefix(w, "version="); is && c.clients[of] != nil && c.clients[of].last != nil {
			cfg.Version = c.clients[of].last.Version
		}
	}
	client := &cursorClient{Cursor: cursor.New(cfg), shard: sub.shard, spaces: map[string]bool{}}
	s, shared := cursor.Source{Ends: c.group.origin.ends}, cursor.Shared{Memo: &cursor.Memo{}}
	if sub.permit != nil {
		s.Allows, shared.Filter = sub.permit.Allows, values.NewFilter(sub.shard.params, sub.permit.Allows)
	}
	s.Shares = func(string) cursor.Shared { return shared }
	client.Open(s)
	for name, d := range sub.claims.versions {
		client.Claim(0, name, sub.claims.spelt[name], d)
	}
	c.clients[f[0]] = client
}

// take is what the cursor says, in the words of a script.
func (c *byCursor) take(sub *scriptSub, client *cursorClient) []string {
	a := client.Take(c.now, plan.Step{TypeURL: sub.typeURL, Parts: []plan.Part{{To: c.newest}}})
	if a == nil {
		return []string{"nothing"}
	}
	if !client.woken && !c.lanes {
		c.t.Errorf("a client is sent %v, and nobody has woken it", a)
	}
	client.last, client.woken, c.lanes = a, a.More, false
	said := &Answer{Body: &Body{Variants: a.Changed, Heartbeats: a.Heartbeats, Removed: a.Removed}, Errors: a.Errors, Version: a.Version}
	if from := client.From(); c.cfg.Origins[0].OriginVersions && from != nil && from.Version != "" {
		said.Version = from.Version
	}
	if a.Whole {
		said.Variants = nil
		for e := range a.All[0].All() {
			v, _ := e.For(sub.shard.params)
			said.Variants = append(said.Variants, v)
		}
	}
	if len(a.Unresolved) > 0 {
		said.Variants = slices.Clone(said.Variants)
		var names []string
		for _, x := range a.Unresolved {
			if x.Notice != nil {
				said.Variants = append(said.Variants, x.Notice)
			} else {
				names = append(names, x.Name)
			}
		}
		said.Variants = append(said.Variants, notices("unresolved", "v", names)...)
	}
	return c.words(sub, said)
}
