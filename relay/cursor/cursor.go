package cursor

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// Config is how a client is sent a type. It stays for the life of a Cursor.
type Config struct {
	TypeURL string
	Delta   bool
	TTL     bool // it is sent TTLs (TTL-5)
	// Withhold: a body with a TTL is withheld from who could not be told its end (RELAY-51).
	Withhold bool
	// Version is the version_info of the first SotW request (RELAY-43). Holds: by it, or by the
	// initial_resource_versions, the client says that it holds something. StandIn: that is what
	// stood in for the origin.
	Version        string
	Holds, StandIn bool
	// States are those that are kept. One of them may be that of Version: then the client has that.
	States []*state.State
	// OriginVersions: clients are sent the origin's versions, which prove nothing (VER-5).
	OriginVersions bool
	// Patience is how long a list may wait for names that a connected origin is silent about
	// (RELAY-6), and Cold for all that comes from one of several origins (FED-5).
	Patience, Cold time.Duration
	Began          time.Time // when the client asked first
	// Unreachable is the error of a name that is waited for in vain (Unreached).
	Unreachable func(name string) *xds.NameError
}

// Source is where a part of what a client asks for comes from.
type Source struct {
	Group  int                // of the plan (plan.Step.Parts)
	Params constraints.Params // of every name
	// Located: the client wrote locators, and is sent the constraints of what it has (DYN-16).
	Located bool
	// Allows says what the client may have; nil: everything.
	Allows func(name string) bool
	// Shares is what clients that ask for the same set with the same Params and Allows have in
	// common; nil: each is for itself.
	Shares func(selector string) Shared
	// Ends says whether an error means that there is none (ABS-8).
	Ends func(*xds.NameError) bool
	// ByContent: what comes of it has versions of our own. Then so has all that the client is sent
	// (VER-5).
	ByContent bool
}

// Shared is what many clients of one set have in common.
type Shared struct {
	Filter *state.Filter // of what they may have; nil: of each member that is found
	Memo   *Memo         // of answers that are the same for many of them; nil: none
}

// Cursor is what one client holds of one type, and how it asked for it. Its methods are called by
// one goroutine at a time.
type Cursor struct {
	Config
	parts     []part
	begun     bool      // the first request is over
	sentWhole bool      // a list was sent, or the client holds the present one
	assumed   bool      // it is taken to hold what it came back with, as a state has it still
	came      state.Set // what it came back with by name, as its version says, until it is answered
	version   string    // of the last answer
	asked     bool      // something new, since the last request
	since     time.Time // the client asked for something new, or was the origin away
	number    uint64    // of the last answer
	flights   []flight
	refusals  []refusal
	until     time.Time       // a list waits at most
	again     bool            // a list is to be sent though nothing has changed
	from      *xds.Provenance // of the newest response that had a part in an answer (VER-5)
	said      string          // the origin's version of a set (state.Status)
}

// part is what a client asks for in one source, and holds of it.
type part struct {
	Source
	sets  []taken
	names names             // asked for by name
	spelt map[string]string // how the client spells them, where that differs (NAME-9)
	// asked and newer are what was known of names when the part was taken last; last are the states
	// of that step.
	asked, newer state.Set
	last         [4]*state.State
	all          bool                  // nothing was to be taken away
	allNamed     bool                  // nothing by name was
	held         state.Set             // the bodies that it was sent, by the resources' own names
	claims       map[string]xds.Digest // versions it says it holds, until that is compared
	told         map[string]*xds.NameError
	owed         map[string]why
	waiting      int       // how many of them the client waits for
	look         names     // to be looked at in the next step, whatever differs
	kept         names     // when a state differs: what is held is not what the newest has, or that is not known
	accepted     state.Set // bodies that the client accepted, if it is sent TTLs
	looked       looked
	exactly      *[2]string // see exact; nil: it is to be worked out
	ghosts       names      // that it dropped, and may be about to read: if it asks again, it has them
	dropped      []string   // names that it does not ask for any more, since the last request
	droppedSet   bool       // a set, too
}

// anyOf is slices.ContainsFunc without copies, as parts are large.
func anyOf[T any](list []T, is func(*T) bool) bool {
	for i := range list {
		if is(&list[i]) {
			return true
		}
	}
	return false
}

// names is a set of names. The zero value is empty.
type names map[string]struct{}

func (n *names) add(name string) {
	if *n == nil {
		*n = names{}
	}
	(*n)[name] = struct{}{}
}

func (n *names) drop(name string) {
	if delete(*n, name); len(*n) == 0 { // a map that was large stays so
		*n = nil
	}
}

func (n names) has(name string) bool {
	_, is := n[name]
	return is
}

// taken is a set that a client asks for.
type taken struct {
	Name
	Shared
	typeURL string
	params  string
	members state.Set // as it was taken last
	fresh   bool      // it is not answered yet
	since   time.Time // it was asked for
	late    bool      // it was waited for in vain: what there is of it is sent (RELAY-6)
	listed  bool      // a response was sent since it was asked for, though without it (FED-5)
	err     *xds.NameError
	// unreached: it is to be told that the origin cannot be reached; away: it was.
	unreached, away bool
}

// in is what a state has of the set.
func (t *taken) in(s *state.State) state.Selected {
	if t.Nothing {
		return state.Selected{Selector: t.Name.Name, Status: state.Status{Phase: state.Firm, Age: state.Live}}
	}
	x, _ := s.For(t.params, t.typeURL, t.Name.Name)
	return x
}

// named is what a state has of the names that were asked with the parameters of a part.
func (c *Cursor) named(p *part, s *state.State) state.Selected {
	x, _ := s.For(p.Params.Key(), c.TypeURL, "")
	return x
}

// why is what is due for a name.
type why uint8

const (
	asked     why = 1 << iota // the client has subscribed to it (DELTA-2, SOTW-5)
	demanded                  // a request of the client's own waits for it (ALIAS-8)
	parent                    // its cluster or its routes were sent (WARM-1, WARM-4)
	left                      // it is not subscribed to any more (DELTA-9)
	silent                    // a connected origin has said nothing of it for long enough (ALIAS-10)
	unreached                 // the origin cannot be reached, which is to be said (RELAY-8)
	back                      // a SotW client came back with it, and may hold something newer (RELAY-96)
)

const everything = asked | demanded | parent | left | silent | unreached | back

// Name is what a client writes in one name, in canonical form.
type Name struct {
	Name   string
	Spelt  string // as the client wrote it; "": it is Name (NAME-9)
	Params string // the key of the parameter map of its source, for Interest
	// Covers says which names may be members; nil: it is the name of one resource.
	Covers func(name string) bool
	Demand bool // a virtual host that a request of the client's own waits for (ALIAS-8)
	// Nothing: it is a set of which the client may have nothing, so the origin is not asked for it.
	Nothing bool
}

// All is the wildcard: its members are what the origin says (WILD-10).
var All = Name{Name: xds.Wildcard, Covers: func(string) bool { return true }}

// New makes the cursor of a client that is subscribed to nothing.
func New(c Config) *Cursor { return &Cursor{Config: c} }

// Open adds a source, and returns its index.
func (c *Cursor) Open(s Source) int {
	c.parts = append(c.parts, part{Source: s})
	c.OriginVersions = c.OriginVersions && !s.ByContent
	c.others()
	return len(c.parts) - 1
}

// others notes that the client asks with other parameter maps.
func (c *Cursor) others() {
	for i := range c.parts {
		c.parts[i].exactly = nil
	}
}

// Leave drops a source of which the client does not ask for anything any more. Those after it move
// up.
func (c *Cursor) Leave(source int) {
	c.parts = slices.Delete(c.parts, source, source+1)
	c.others()
	for i := range c.flights {
		f := &c.flights[i]
		f.sent, f.all, f.by = without(f.sent, source), without(f.all, source), nil
	}
	for i := range c.refusals {
		c.refusals[i].sets = without(c.refusals[i].sets, source)
	}
}

// looked is whether anything of what a client names is not confirmed in a set.
type looked struct {
	at     state.Set
	claims int
	unsure bool
}

func (p *part) lookAt(names state.Set) {
	p.looked = looked{at: names, claims: len(p.claims)}
	for name := range p.names {
		_, claimed := p.claims[name]
		p.looked.unsure = p.looked.unsure || claimed || names.Get(name).Besides().Age == state.Restored
	}
}

// set is the index of a set that the client asks for; -1: it does not.
func (p *part) set(selector string) int {
	for i := range p.sets {
		if p.sets[i].Name.Name == selector {
			return i
		}
	}
	return -1
}

func (p *part) owe(name string, w why) {
	p.setDue(name, p.owed[name]|w)
	p.look.add(name)
}

// clear takes back what was due.
func (p *part) clear(name string, w why) { p.setDue(name, p.owed[name]&^w) }

func (p *part) setDue(name string, is why) {
	was := p.owed[name]
	if was.waits() {
		p.waiting--
	}
	if is.waits() {
		p.waiting++
	}
	switch delete(p.owed, name); {
	case is == 0 && len(p.owed) == 0: // a map that was large stays so
		p.owed = nil
	case is == 0:
	case p.owed == nil:
		p.owed = map[string]why{name: is}
	default:
		p.owed[name] = is
	}
}

// waits reports whether the client waits for an answer.
func (w why) waits() bool { return w&(asked|demanded) != 0 }

// oweHeld owes again what the client has.
func (p *part) oweHeld(of func(name string) bool, w why) {
	for e := range p.held.All() {
		if of(e.Name()) {
			p.owe(e.Name(), w)
		}
	}
}

// oweAll owes again what the client has, and the names that it asks for.
func (p *part) oweAll(of func(name string) bool, w why) {
	p.oweHeld(of, w)
	for name := range p.names {
		if of(name) {
			p.owe(name, w)
		}
	}
}
