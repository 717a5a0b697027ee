package cursor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

func TestRows(t *testing.T) {
	for _, row := range rows {
		for dialect := range strings.FieldsSeq(row.dialects) {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/shared %t", row.rule, dialect, shared), func(t *testing.T) {
					g := &game{t: t, now: zero, delta: dialect == "delta", last: map[string]*xds.Variant{}}
					if shared {
						g.memo = &Memo{}
					}
					g.line = state.NewTimeline(zero, state.Config{Bounds: func() (int64, time.Duration) { return 1 << 30, time.Hour }})
					g.line.Connect(0, state.Lane{Open: true})
					lines := strings.Split(strings.TrimSpace(row.script), "\n")
					for i, line := range lines {
						if line = strings.TrimSpace(line); strings.HasPrefix(line, "gets") {
							continue
						}
						want := "-"
						if i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "gets") {
							want = strings.TrimSpace(lines[i+1])
						}
						g.play(line, want)
					}
				})
			}
		}
	}
}

// game is a row that is played.
type game struct {
	t       *testing.T
	delta   bool
	typeURL string
	cfg     Config
	source  Source
	memo    *Memo
	cursor  *Cursor
	line    *state.Timeline
	now     time.Time
	rev     uint64
	keep    *state.State
	all     bool
	only    plan.Only
	held    []*state.State
	last    map[string]*xds.Variant
	claims  []string
	answer  uint64
}

var typesOfRows = map[string]string{"cds": cds, "eds": eds, "sds": sds, "vhds": vhs}

func (g *game) play(line, want string) {
	words := strings.Fields(line)
	what := words[0]
	unseen := what == "unseen" || what == "first"
	if what == "unseen" {
		words = words[1:]
		what = words[0]
	}
	push := g.do(what, words[1:])
	if unseen || g.cursor == nil {
		return
	}
	s := plan.Step{TypeURL: g.typeURL, Push: push, Parts: []plan.Part{{To: g.line.Target(state.Rest).State, Keep: [3]*state.State{g.keep}, All: g.all}}}
	s.Only = g.only
	a := g.cursor.Take(g.now, s)
	if got := g.words(a); got != sorted(want) {
		g.t.Fatalf("after %q: %s\n          want: %s", line, got, sorted(want))
	}
	if a != nil {
		g.answer = a.Number
	}
	p := &g.cursor.parts[0]
	for name := range p.spelt {
		if _, claimed := p.claims[name]; !claimed && p.owed[name] == 0 && !p.names.has(name) && !p.held.Get(name).Known() && !p.look.has(name) {
			g.t.Errorf("after %q: the spelling of %s is kept", line, name)
		}
	}
	for e := range p.held.All() {
		if !p.selects(e.Name(), e.Body()) && !p.look.has(e.Name()) {
			g.t.Errorf("after %q: %s is held, and not asked for", line, e.Name())
		}
	}
	if !g.cfg.TTL && p.accepted.Len() > 0 {
		g.t.Errorf("after %q: what was accepted is kept, of a client that is sent no TTLs", line)
	}
}

// sorted has the words of a line in the order in which they are compared.
func sorted(line string) string {
	words := strings.Fields(line)
	from := min(len(words), 1)
	if len(words) > 1 && words[1] == "list" {
		from = 2
	}
	slices.Sort(words[from:])
	return strings.Join(words, " ")
}

func (g *game) words(a *Answer) string {
	if a == nil {
		return "-"
	}
	words := []string{"gets"}
	body := func(v *xds.Variant) string {
		_, payload, _ := xds.AnyParts(v.Any())
		return v.Name + "=" + string(payload)
	}
	if a.Whole {
		words = append(words, "list")
		var digests []xds.Digest
		for e := range a.All[0].All() {
			words = append(words, body(e.Body()))
			digests = append(digests, e.Body().Digest)
		}
		if a.Version != a.All[0].Sum().TreeVersion() || len(digests) == 0 && a.Version != (xds.SetDigest{}).TreeVersion() {
			g.t.Errorf("the version of %v is %s (VER-4)", words, a.Version)
		}
	} else {
		for _, v := range a.Changed {
			words = append(words, body(v))
		}
	}
	for _, v := range a.Heartbeats {
		words = append(words, "~"+v.Name)
	}
	for _, name := range a.Removed {
		words = append(words, "-"+strings.Replace(name, selectorOfRows, "g/*", 1))
	}
	for _, e := range a.Errors {
		words = append(words, "!"+strings.Replace(e.Spelling(), selectorOfRows, "g/*", 1))
	}
	for _, x := range a.Unresolved {
		words = append(words, "?"+x.Name)
	}
	if len(words) == 1 {
		words = append(words, "nothing")
	}
	if a.More {
		words = append(words, "...")
	}
	return sorted(strings.Join(words, " "))
}

const selectorOfRows = "xdstp:///envoy.config.cluster.v3.Cluster/g/*"

func nameOfRows(word string) Name {
	switch word {
	case "*":
		return All
	case "no:g/*":
		n := nameOfRows("g/*")
		n.Nothing = true
		return n
	case "g/*":
		return Name{Name: selectorOfRows, Covers: func(name string) bool { return strings.HasPrefix(name, "g") }}
	}
	name, spelt, _ := strings.Cut(word, "/")
	return Name{Name: name, Spelt: spelt}
}

// open begins the stream.
func (g *game) open() {
	if g.cursor != nil {
		return
	}
	g.cfg.Began = g.now
	g.cursor = New(g.cfg)
	g.cursor.Open(g.source)
	for _, c := range g.claims {
		word, payload, _ := strings.Cut(c, "=")
		n := nameOfRows(word)
		g.cursor.Claim(0, n.Name, n.Spelt, g.edit(n.Name, payload).Entry.Body().Digest)
	}
}

// do does what a line says. push: what is owed is due.
func (g *game) do(what string, words []string) (push bool) {
	word := strings.Join(words, " ")
	switch what {
	case "type":
		g.typeURL = typesOfRows[words[0]]
		g.cfg = Config{TypeURL: g.typeURL, Delta: g.delta, Patience: 15 * time.Second, Cold: 10 * time.Second}
		g.cfg.Unreachable = func(name string) *xds.NameError { return xds.NewNameError(name, unavailable, "it is away") }
		g.source = Source{Ends: ends, Shares: memoOf(g.memo)}
		for i, option := range words[1:] {
			g.cfg.TTL = g.cfg.TTL || option == "ttl"
			g.cfg.Withhold = g.cfg.Withhold || option == "withhold"
			g.cfg.StandIn = g.cfg.StandIn || option == "standin"
			if may := words[i+2:]; option == "may" {
				g.source.Allows = func(name string) bool { return slices.Contains(may, name) }
				shared := Shared{state.NewFilter(g.source.Params, g.source.Allows), g.memo}
				g.source.Shares = func(string) Shared { return shared }
				break
			}
		}
	case "has":
		if g.cfg.Holds = true; word != "version" {
			g.claims = words
			break
		}
		x, _ := g.line.Newest().Of(g.typeURL, "*")
		g.cfg.Version = x.Members.Sum().TreeVersion()
	case "asks", "lists", "drops", "demands":
		g.open()
		g.request(what, words)
	case "star", "glob", "says":
		g.say(what, words)
	case "lane":
		lane := 0
		if words[0] == "1" {
			lane, word = 1, words[1]
		}
		g.line.Connect(lane, state.Lane{Open: word == "up"})
	case "hold":
		if g.held = append(g.held, g.line.Newest()); word == "1" {
			g.line.Hold(g.now, state.Rest, g.held[0])
		} else {
			g.line.Hold(g.now, state.Rest, g.line.Newest())
		}
	case "follow":
		g.line.Hold(g.now, state.Rest, nil)
	case "keep":
		if g.keep = g.line.Newest(); word == "no" {
			g.keep = nil
		}
	case "all":
		g.all = word != "no"
	case "missing", "beats", "demanded":
		g.only = map[string]plan.Only{"missing": plan.Missing, "beats": plan.Heartbeats, "demanded": plan.Demanded}[what]
		if word == "no" {
			g.only = plan.Everything
		}
	case "ack", "nack":
		g.cursor.Ack(g.answer, what == "ack")
	case "requests":
		g.cursor.Requested(g.now)
	case "owes":
		g.cursor.Owe(words...)
	case "hosts":
		g.cursor.OweHosts(func(name string) bool { return strings.HasPrefix(name, word) })
	case "silent":
		g.cursor.Silent(0, word)
	case "unreached":
		g.cursor.Unreached(0)
	case "first":
		g.open()
		for _, name := range words[1:] {
			g.cursor.Subscribe(0, nameOfRows(name))
		}
	case "forgets":
		g.line.Publish(g.now, g.rev, forMaps(state.Change{TypeURL: g.typeURL, Edits: []state.Edit{{Name: word}}})...)
	case "push":
		return true
	case "wait":
		d, err := time.ParseDuration(word)
		if err != nil {
			g.t.Fatal(err)
		}
		g.now = g.now.Add(d)
	default:
		g.t.Fatalf("%q is no line", what)
	}
	return false
}

func (g *game) request(what string, words []string) {
	var names []Name
	for _, word := range words {
		n := nameOfRows(word)
		n.Demand = what == "demands"
		names = append(names, n)
	}
	switch what {
	case "lists":
		g.cursor.Replace(0, names)
	case "drops":
		for _, n := range names {
			g.cursor.Unsubscribe(0, n.Name)
		}
	default:
		for _, n := range names {
			g.cursor.Subscribe(0, n)
		}
	}
	g.cursor.Requested(g.now)
}

// say is what the origin says.
func (g *game) say(what string, words []string) {
	c := state.Change{TypeURL: g.typeURL, Selector: map[string]string{"star": "*", "glob": selectorOfRows}[what]}
	ages := map[string]state.Age{"restored": state.Restored, "fallback": state.Fallback, "stale": state.Stale}
	phases := map[string]state.Phase{"unanswered": state.Unanswered, "arriving": state.Arriving, "settled": state.Settled, "firm": state.Firm}
	for _, word := range words {
		name, payload, is := strings.Cut(word, "=")
		phase, isPhase := phases[word]
		switch {
		case isPhase:
			c.Status = &state.Status{Phase: phase, Age: state.Live}
		case word == "ill":
			g.status(&c).Err = xds.NewNameError(c.Selector, unavailable, "it is so")
		case word == "own":
			own := *xds.NewNameError(c.Selector, unavailable, "weir says so")
			own.Own = true
			g.status(&c).Err = &own
		case ages[word] != state.Inherit:
			g.status(&c).Age = ages[word]
		case is:
			c.Edits = append(c.Edits, g.edit(name, payload))
		case strings.HasSuffix(word, "-") && c.Selector == "":
			c.Edits = append(c.Edits, gone(strings.TrimSuffix(word, "-")))
		case strings.HasSuffix(word, "-"), strings.HasSuffix(word, "?") && !is:
			c.Edits = append(c.Edits, state.Edit{Name: word[:len(word)-1]})
		case strings.Contains(word, "!"):
			name, code, _ := strings.Cut(word, "!")
			n, _ := strconv.Atoi(code)
			e := failed(name, uint32(n), "it is so")
			if x, _ := g.line.Newest().Of(g.typeURL, ""); n == unavailable && x.Members.Get(name).Body() != nil { // it keeps its body
				f := e.Entry.Facts()
				f.Bodies = []*xds.Variant{x.Members.Get(name).Body()}
				e.Entry = state.NewEntry(f)
			}
			c.Edits = append(c.Edits, e)
		case strings.Contains(word, ">"):
			name, of, _ := strings.Cut(word, ">")
			c.Edits = append(c.Edits, alias(name, of))
		default:
			g.t.Fatalf("%q is nothing that can be said", word)
		}
	}
	g.rev++
	g.line.Publish(g.now, g.rev, forMaps(c)...)
}

// status is that of a change: as it was, unless that is said before.
func (g *game) status(c *state.Change) *state.Status {
	if c.Status == nil {
		x, _ := g.line.Newest().Of(g.typeURL, c.Selector)
		c.Status = &x.Status
	}
	return c.Status
}

// edit is of a body: payload/alias~seconds!code.
func (g *game) edit(name, text string) state.Edit {
	l := like{typeURL: g.typeURL, name: name}
	text, l.uncached = strings.CutSuffix(text, "^")
	if text, restored := strings.CutSuffix(text, "?"); restored {
		l.payload = text
		return state.Edit{Name: name, Entry: state.NewEntry(state.Facts{Name: name, Bodies: []*xds.Variant{body(l)}, Age: state.Restored})}
	}
	text, code, failed := strings.Cut(text, "!")
	text, end, timed := strings.Cut(text, "~")
	if timed {
		seconds, _ := strconv.Atoi(end)
		l.end = zero.Add(time.Duration(seconds) * time.Second)
	}
	parts := strings.Split(text, "/")
	if l.payload = parts[0]; len(parts) > 1 {
		l.aliases = parts[1:]
	}
	if n, _ := strconv.Atoi(code); failed {
		l.err = xds.NewNameError(name, uint32(n), "it is so")
	}
	return say(l)
}
