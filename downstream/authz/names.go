package authz

import "slices"

// names are the globs of a permit, found by how they begin: a client may ask for a million names,
// and rules may have hundreds of patterns.
type names struct {
	all []glob
	// The same, but for a few, which are tried one after the other.
	plain map[string]bool   // those without stars
	open  map[string][]glob // those with one, by the text before it
	sizes []int             // of these texts, ascending
}

const fewNames = 8

func namesOf(globs []glob) *names {
	n := &names{all: globs}
	if len(globs) <= fewNames {
		return n
	}
	n.plain, n.open = map[string]bool{}, make(map[string][]glob, len(globs))
	for _, g := range globs {
		begin, rest := "", g
		if len(g) > 0 && g[0].kind == literal {
			begin, rest = g[0].text, g[1:]
		}
		if len(rest) == 0 {
			n.plain[begin] = true
			continue
		}
		n.open[begin] = append(n.open[begin], rest)
		if at, known := slices.BinarySearch(n.sizes, len(begin)); !known {
			n.sizes = slices.Insert(n.sizes, at, len(begin))
		}
	}
	return n
}

// list is nil for nil.
func (n *names) list() []glob {
	if n == nil {
		return nil
	}
	return n.all
}

func (n *names) match(name string) bool {
	if n == nil {
		return false
	}
	if len(n.all) <= fewNames {
		return slices.ContainsFunc(n.all, func(g glob) bool { return g.matches(name) })
	}
	if n.plain[name] {
		return true
	}
	for _, size := range n.sizes {
		if size > len(name) {
			return false
		}
		for _, rest := range n.open[name[:size]] {
			if rest.matches(name[size:]) {
				return true
			}
		}
	}
	return false
}
