package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// contents lists what a state of a group holds, each with where it is held. What is known not to
// exist adds nothing, nor does what is not known. The digest of that set is the ID of the state
// (VER-4): two replicas that hold the same content have the same ID, in whatever order it came.
type contents []xds.Digest

// add adds what is held of a resource; nil: nothing.
func (c *contents) add(r *resourceKey, v *xds.Variant) {
	if v != nil {
		*c = append(*c, r.digest(v.Digest))
	}
}

// addType adds a type, whole or as far as it is known.
func (c *contents) addType(t *TypeAt) {
	key := resourceKey{typeURL: t.TypeURL, params: t.Params.Key()}
	for i := range t.Sets {
		set := &t.Sets[i]
		key.set = set.Selector
		for _, v := range set.Members {
			key.name = v.Name
			c.add(&key, v)
		}
	}
	key.set = ""
	for i := range t.Names {
		key.name = t.Names[i].Name
		c.add(&key, t.Names[i].Variant)
	}
}

// ID is the same for states of equal content of a group, on all replicas. What is urgent, and
// secrets, are no part of it.
func (s *State) ID(*Origin) string { return stateID(s.Types) }

// stateID is the ID of a state of a group.
func stateID(types []TypeAt) string {
	var c contents
	for i := range types {
		if !types[i].Aside {
			c.addType(&types[i])
		}
	}
	return idOf(xds.SetOf(c))
}

func idOf(d xds.SetDigest) string { return hex.EncodeToString(d[:]) }

// resourceKey is where something is held in a group.
type resourceKey struct {
	typeURL, params string
	set, name       string // as those of history.Resource
}

// digest is that of content which is held there. Every part has its length before it. The digest of
// the content alone is not enough: an alias may come to stand for another resource, and a resource
// may be held for one parameter map and not for another.
func (r *resourceKey) digest(content xds.Digest) (d xds.Digest) {
	var stack [512]byte
	b := stack[:0]
	for _, part := range [...]string{r.typeURL, r.params, r.set, r.name} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(append(b, content[:]...))
	copy(d[:], sum[:])
	return d
}

// Good notes that the state of a group at a revision was seen good: all its clients have
// acknowledged it, and it has proven itself since. The note lives as long as the history knows the
// state.
func (o *Origin) Good(now time.Time, group string, revision uint64) {
	if _, end, is := o.stateSince(group); is && revision >= end.Revision {
		o.table.past.Mark(o.name, group, history.Mark{Revision: revision, At: now}, end.Revision)
	}
}

// StateSince is the revision of the present state of a group, and since when it has been in force;
// zero: since before what is known, or there is no such group. It costs little.
func (o *Origin) StateSince(group string) (revision uint64, at time.Time) {
	last, end, _ := o.stateSince(group)
	last = end.Newer(last)
	return last.Revision, last.At()
}

// stateSince is when the group has changed last, and where what is known of it ends; false:
// there is no such group. It locks the origin.
func (o *Origin) stateSince(group string) (last, end history.Edge, is bool) {
	g := o.GroupOf(group)
	if g == nil {
		return last, end, false
	}
	end.Revision = g.begun
	for _, s := range *g.all.Load() {
		if s.configures() {
			l, e := s.table().past.Changed(s.past.Place())
			last, end = last.Newer(l), end.Newer(e)
		}
	}
	return last, end, true
}

// Which state of a group people mean.

// lastGood is the word for the newest good state before the present one.
const lastGood = "last-good"

// leastID is how many digits of an ID are asked for.
const leastID = 6

// mostStates bounds the states that are looked through.
const mostStates = 100_000

// ErrNoState: what is given says of no group which state is meant.
var ErrNoState = errors.New("is no state")

// ResolveState is all that is known of the state that is meant, but for Good: by a REVISION, an ID
// or at least six digits of it, a TIME as in RFC 3339 or as a duration before now, or last-good,
// which is the newest good state before the present one. An error is one line that names what is
// known.
func (o *Origin) ResolveState(group, to string, now time.Time) (state StateRow, err error) {
	if !o.table.past.On() {
		return state, errors.New("no history is kept: cache.history.versions is 0")
	}
	r := resolving{to: to, now: now, newest: o.table.Revision(), start: o.table.past.Start().At()}
	if r.rows = o.states(group, mostStates, r.enough()); len(r.rows) == 0 {
		return state, fmt.Errorf("there is no group %s", group)
	}
	row, err := r.row()
	if err == nil && !row.Whole {
		err = fmt.Errorf("the state of revision %d is not whole any more: %s", row.Revision, r.oldest())
	}
	if err != nil {
		return state, err
	}
	return *row, nil
}

// resolving is the states of a group, the newest first, and what is meant.
type resolving struct {
	rows   []StateRow
	to     string
	now    time.Time
	newest uint64    // the table's revision
	start  time.Time // when the history began; zero: that is not known
}

// enough tells which state is the one that is meant without a look at older ones; nil: all have to
// be looked at.
func (r *resolving) enough() func(*StateRow) bool {
	if n, err := strconv.ParseUint(r.to, 10, 64); err == nil {
		if len(r.to) >= leastID {
			return nil // it may be an ID
		}
		return func(x *StateRow) bool { return x.Revision <= n }
	}
	if at, is, err := r.time(); is && err == nil {
		return func(x *StateRow) bool { return !x.At.After(at) }
	}
	return nil
}

func (r *resolving) row() (*StateRow, error) {
	if r.to == lastGood {
		return r.lastGood()
	}
	if n, err := strconv.ParseUint(r.to, 10, 64); err == nil {
		return r.number(n)
	}
	if at, is, err := r.time(); is || err != nil {
		if err != nil {
			return nil, err
		}
		return r.at(at)
	}
	if r.to != "" && strings.Trim(r.to, "0123456789abcdefABCDEF") == "" {
		return r.id()
	}
	return nil, fmt.Errorf("%q %w: write a revision, %d digits of an ID at least, a time as %s or 10m, or %s",
		r.to, ErrNoState, leastID, r.now.UTC().Format(time.RFC3339), lastGood)
}

// number is the state of a revision, or of an ID that has no letters.
func (r *resolving) number(n uint64) (*StateRow, error) {
	row := r.find(func(x *StateRow) bool { return x.Revision <= n })
	if n > r.newest {
		row = nil
	}
	if len(r.to) >= leastID {
		switch byID, err := r.id(); {
		case err != nil && row == nil:
			return nil, err
		case err == nil && row == nil:
			return byID, nil
		case err == nil && byID != row:
			return nil, fmt.Errorf("%s is a revision and the beginning of the ID %s: write more digits of the ID", r.to, byID.ID)
		}
	}
	switch {
	case row != nil:
		return row, nil
	case n > r.newest:
		return nil, fmt.Errorf("there is no revision %d yet: the newest is %d", n, r.newest)
	}
	return nil, fmt.Errorf("revision %d is not known: %s", n, r.oldest())
}

// id is the newest state with an ID.
func (r *resolving) id() (*StateRow, error) {
	to := strings.ToLower(r.to)
	if len(to) < leastID {
		return nil, fmt.Errorf("%q %w: it is too short, write %d digits of an ID at least", r.to, ErrNoState, leastID)
	}
	row := r.find(func(x *StateRow) bool { return strings.HasPrefix(x.ID, to) })
	if row == nil {
		return nil, fmt.Errorf("no state with the ID %s is known: %s", r.to, r.oldest())
	}
	other := r.find(func(x *StateRow) bool { return strings.HasPrefix(x.ID, to) && x.ID != row.ID })
	if other != nil {
		return nil, fmt.Errorf("the IDs %s and %s both begin with %s: write more digits", row.ID, other.ID, r.to)
	}
	return row, nil
}

// time is the time that is written; false: none is.
func (r *resolving) time() (at time.Time, is bool, err error) {
	if d, err := time.ParseDuration(r.to); err == nil {
		if d < 0 {
			return at, false, fmt.Errorf("%s is in the future: write how long ago, as 10m", r.to)
		}
		return r.now.Add(-d), true, nil
	}
	if at, err = time.Parse(time.RFC3339, r.to); err != nil {
		return at, false, nil
	}
	if at.After(r.now) {
		return at, false, fmt.Errorf("%s is in the future", r.to)
	}
	return at, true, nil
}

// at is the state at a time.
func (r *resolving) at(at time.Time) (*StateRow, error) {
	row := r.find(func(x *StateRow) bool { return !x.At.After(at) })
	if row == nil || row.At.IsZero() && at.Before(r.start) {
		return nil, fmt.Errorf("what was at %s is not known: %s", at.UTC().Format(time.RFC3339), r.oldest())
	}
	return row, nil
}

// lastGood is the newest good state that is another than the present one.
func (r *resolving) lastGood() (*StateRow, error) {
	good := func(x *StateRow) bool { return !x.Present && !x.Good.IsZero() && x.ID != r.rows[0].ID }
	if row := r.find(func(x *StateRow) bool { return good(x) && x.Whole }); row != nil {
		return row, nil
	}
	if row := r.find(good); row != nil {
		return row, nil // which is not whole
	}
	if !r.rows[0].Good.IsZero() {
		return nil, fmt.Errorf("no state before the present one, of revision %d, was seen good, and that was: %s", r.rows[0].Revision, r.oldest())
	}
	return nil, fmt.Errorf("no state before the present one, of revision %d, was seen good: %s", r.rows[0].Revision, r.oldest())
}

// find is the newest state that fits; nil: none does.
func (r *resolving) find(fits func(*StateRow) bool) *StateRow {
	for i := range r.rows {
		if fits(&r.rows[i]) {
			return &r.rows[i]
		}
	}
	return nil
}

// oldest says what is known.
func (r *resolving) oldest() string {
	i := len(r.rows) - 1
	for i > 0 && !r.rows[i].Whole {
		i--
	}
	text := fmt.Sprintf("the oldest state that is known whole is of revision %d", r.rows[i].Revision)
	if at := r.rows[i].At; !at.IsZero() {
		text += ", " + at.UTC().Format(time.RFC3339)
	}
	if good := slices.IndexFunc(r.rows, func(x StateRow) bool { return !x.Good.IsZero() && x.Whole }); good >= 0 {
		text += fmt.Sprintf(", and the newest good one of %d", r.rows[good].Revision)
	}
	return text
}
