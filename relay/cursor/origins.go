package cursor

import (
	"github.com/weir-xds/weir/relay/xds"
)

// A name that the client asks one origin for may be a member of `*`, which another origin has. It
// is one resource of the client, and in a response once (FED-5, DELTA-20): what was asked for by
// name or glob counts, and that from `*` comes in its place when there is none.

// star is another source, of which the client asks for `*`; nil: there is none. Locators are for
// themselves.
func (c *Cursor) star(than *part) *part {
	for i := range c.parts {
		if p := &c.parts[i]; p != than && !p.Located && !than.Located && p.set(xds.Wildcard) >= 0 {
			return p
		}
	}
	return nil
}

// starFor is the source of `*` if that may have a name of another source, too; nil: it may not.
func (c *Cursor) starFor(p *part, name string) *part {
	if p.set(xds.Wildcard) >= 0 || !xds.IsNewStyle(name) {
		return nil
	}
	return c.star(p)
}

// elsewhere reports whether the client has a name by another source after the step, so that it has
// nothing of it by `*`.
func (k *take) elsewhere(star *part, name string) bool {
	if !xds.IsNewStyle(name) || star.set(xds.Wildcard) < 0 || star.Located {
		return false
	}
	if k.beside == nil {
		k.beside = map[string]bool{}
		for i := range k.parts {
			for _, o := range k.outs[i].all {
				if p := &k.parts[i]; p != star && !p.Located {
					k.beside[o.name] = k.beside[o.name] || o.is != nil || o.claimed
				}
			}
		}
	}
	if is, looked := k.beside[name]; looked {
		return is
	}
	return anyOf(k.parts, func(p *part) bool {
		return p.set(xds.Wildcard) < 0 && !p.Located && p.held.Get(name).Known()
	})
}

// instead reports whether what the client loses, or cannot have, comes from `*` in its place. That
// is the answer then.
func (k *take) instead(p *part, name string) bool {
	star := k.starFor(p, name)
	if star == nil || k.find(star, k.Parts[star.Group].To, name, nil).body == nil {
		return false
	}
	star.owe(name, asked)
	return true
}

// inOrder are the sources, that of `*` last: what it is to say of a name depends on the others.
func (c *Cursor) inOrder() (all []int) {
	var last []int
	for i := range c.parts {
		if p := &c.parts[i]; !p.Located && p.set(xds.Wildcard) >= 0 {
			last = append(last, i)
		} else {
			all = append(all, i)
		}
	}
	return append(all, last...)
}
