package relay

import "iter"

// Permit is the names of one type that a client may have (SubOptions.Permit). It does not change.
// Clients whose permits have equal keys share views. A nil Permit is every name.
type Permit struct {
	key  string
	has  func(name string) bool
	some func(before, after string, deep bool) bool
}

// NewPermit makes a Permit. has is called with names in canonical form. some tells whether there
// can be names that the client may have among those that begin and end with a text and have one
// segment between, or any number if deep. Both are called with the type's store locked. Permits
// have equal keys only if they have the same names.
func NewPermit(key string, has func(name string) bool, some func(before, after string, deep bool) bool) *Permit {
	return &Permit{key, has, some}
}

// Allows reports whether the client may have a name, in canonical form.
func (p *Permit) Allows(name string) bool { return p == nil || p.has(name) }

// Key is equal for Permits that have the same names; "" is that of a nil Permit.
func (p *Permit) Key() string {
	if p == nil {
		return ""
	}
	return p.key
}

// byPermit has the views of one set. Nearly always there is one: without TTLs, of all members.
type byPermit[view any] struct {
	plain, timed *view // of all members; timed is that of clients that are sent TTLs
	// limited are those of clients that may have a part of the members; nil: there are none.
	limited map[permitKey]*view
}

type permitKey struct {
	key string
	ttl bool
}

// of is the view of clients that are sent TTLs or not, and have a permit; nil: there is none.
func (x *byPermit[view]) of(ttl bool, p *Permit) *view {
	switch {
	case p != nil:
		return x.limited[permitKey{p.key, ttl}]
	case ttl:
		return x.timed
	}
	return x.plain
}

// put records the view of such clients; nil: there is none any more.
func (x *byPermit[view]) put(ttl bool, p *Permit, v *view) {
	switch {
	case p == nil && ttl:
		x.timed = v
	case p == nil:
		x.plain = v
	case v == nil:
		delete(x.limited, permitKey{p.key, ttl})
	case x.limited == nil:
		x.limited = map[permitKey]*view{}
		fallthrough
	default:
		x.limited[permitKey{p.key, ttl}] = v
	}
}

// all gives every view.
func (x *byPermit[view]) all() iter.Seq[*view] {
	return func(yield func(*view) bool) {
		if x.plain != nil && !yield(x.plain) || x.timed != nil && !yield(x.timed) {
			return
		}
		for _, v := range x.limited {
			if !yield(v) {
				return
			}
		}
	}
}
