package farm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/weir-xds/weir/cmd/weirload/world"
	"github.com/weir-xds/weir/relay/xds"
)

// content is a response as it is sent, and as a client reads it. Equal responses are one, whoever
// sends them.
type content struct {
	raw     []byte
	items   []item
	removed []int
}

// item is a resource in a response.
type item struct {
	index int
	stamp world.Stamp
}

// state is what a client holds. Clients that hold the same share one, and it never changes.
type state struct {
	stamps  []world.Stamp // by resource; 0: it is not held
	held    int
	next    map[*content]*transition
	initial map[string]string // see library.initial
}

// transition is what a response makes of a state.
type transition struct {
	to      *state
	gained  []*change // that the client did not have before
	back    int       // resources that it had newer
	removed int
}

// library has all contents and states there were.
type library struct {
	world    *world.World
	contents map[[sha256.Size]byte]*content
	states   map[[sha256.Size]byte]*state
	versions map[item]string
	changes  [][]*change // by resource, in order
	none     *state
}

func newLibrary(w *world.World) *library {
	l := &library{
		world: w, contents: map[[sha256.Size]byte]*content{}, states: map[[sha256.Size]byte]*state{}, versions: map[item]string{},
		changes: make([][]*change, w.Len()),
	}
	l.none = l.state(make([]world.Stamp, w.Len()))
	return l
}

// read returns the content of a response, of which it keeps the bytes.
func (l *library) read(raw []byte) (*content, error) {
	key := sha256.Sum256(raw)
	if c := l.contents[key]; c != nil {
		return c, nil
	}
	r, err := xds.ParseResponse(raw, true)
	if err != nil {
		return nil, err
	}
	c := &content{raw: raw}
	index := func(name string) (int, error) {
		i, ok := l.world.Index(name)
		if !ok {
			return 0, fmt.Errorf("there is no resource %q", name)
		}
		return i, nil
	}
	for _, b := range r.Resources {
		var one xds.Resource
		if err := xds.ParseResource(b, &one); err != nil {
			return nil, err
		}
		i, err := index(one.Name)
		if err != nil {
			return nil, err
		}
		stamp, _, ok := world.Find(one.Any)
		if !ok {
			return nil, fmt.Errorf("%s has no stamp", one.Name)
		}
		x := item{i, stamp}
		c.items = append(c.items, x)
		l.versions[x] = one.Version
	}
	for _, name := range r.Removed {
		i, err := index(name)
		if err != nil {
			return nil, err
		}
		c.removed = append(c.removed, i)
	}
	l.contents[key] = c
	return c, nil
}

// state returns the one state with these stamps.
func (l *library) state(stamps []world.Stamp) *state {
	b := make([]byte, 0, 8*len(stamps))
	held := 0
	for _, s := range stamps {
		b = binary.LittleEndian.AppendUint64(b, uint64(s))
		if s != 0 {
			held++
		}
	}
	key := sha256.Sum256(b)
	s := l.states[key]
	if s == nil {
		s = &state{stamps: stamps, held: held, next: map[*content]*transition{}}
		l.states[key] = s
	}
	return s
}

// after returns what a response makes of a state.
func (l *library) after(s *state, c *content) *transition {
	if t := s.next[c]; t != nil {
		return t
	}
	t := &transition{removed: len(c.removed)}
	stamps := append([]world.Stamp(nil), s.stamps...)
	for _, x := range c.items {
		old := stamps[x.index]
		if stamps[x.index] = x.stamp; old == 0 {
			continue // it is no change that there is something now
		}
		if x.stamp < old {
			t.back++
		}
		for _, change := range l.changes[x.index] {
			if old < change.stamp && change.stamp <= x.stamp {
				t.gained = append(t.gained, change)
			}
		}
	}
	for _, i := range c.removed {
		stamps[i] = 0
	}
	t.to = l.state(stamps)
	s.next[c] = t
	return t
}

// versionsOf returns the versions of what is held, as a client presents them when it comes back. It
// is one map for all who hold the same.
func (l *library) versionsOf(s *state) map[string]string {
	if s.initial == nil {
		s.initial = make(map[string]string, s.held)
		for i, stamp := range s.stamps {
			if stamp != 0 {
				s.initial[world.Name(i)] = l.versions[item{i, stamp}]
			}
		}
	}
	return s.initial
}
