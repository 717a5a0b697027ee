package relay

import (
	"cmp"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Aliases in a state of a group (ALIAS-1). A resource has one body in a state, by whichever of its
// names that is known, so that a hold never gives it in two forms (ALIAS-3). An alias stands for
// the resource whose body lists it, whether or not anybody had asked for the alias then.

// byAlias reports whether the name stands for a resource of another name.
func (x *NameAt) byAlias() bool { return x.Variant != nil && x.Variant.Name != x.Name }

// resolveAliases adds to what is known by name what aliases stand for. What is known as of the
// state comes first, and adds to what a set had. What is known only from later on, which is the
// first that was known, comes after that.
func (t *TypeAt) resolveAliases(all map[string]*xds.Variant) {
	named := t.aliases()
	late := map[string]bool{} // names that are known from later on
	if len(named) > 0 {
		own := map[string]bool{} // what is known by its own name, or by an alias before
		for i := range t.Names {
			if x := &t.Names[i]; !x.Unknown && !x.byAlias() {
				own[x.Name], late[x.Name] = true, x.Late
			}
		}
		for _, x := range named {
			if name := x.Variant.Name; !own[name] || late[name] && !x.Late {
				all[name], own[name], late[name] = x.Variant, true, x.Late
			}
		}
	}
	listed := listedBy(all)
	for _, x := range named {
		if v := all[x.Variant.Name]; v != nil && v.ListsAs(x.Name) {
			all[x.Name] = v
		}
	}
	for alias, v := range listed {
		if is, known := all[alias]; v != nil && (!known || is == nil && late[alias]) {
			all[alias] = v
		}
	}
}

// aliases are those of which a body is known, what is known as of the state first, and then what
// was known first.
func (t *TypeAt) aliases() (named []*NameAt) {
	for i := range t.Names {
		if x := &t.Names[i]; !x.Unknown && x.byAlias() {
			named = append(named, x)
		}
	}
	slices.SortFunc(named, func(x, y *NameAt) int {
		if x.Late != y.Late {
			if x.Late {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(x.Variant.From.Revision, y.Variant.From.Revision), cmp.Compare(x.Name, y.Name))
	})
	return named
}

// listedBy are the bodies by the aliases that they list; nil: two resources list it.
func listedBy(all map[string]*xds.Variant) map[string]*xds.Variant {
	var listed map[string]*xds.Variant
	for _, v := range all {
		if v == nil {
			continue
		}
		for _, alias := range v.Aliases {
			if alias = xds.NameKey(alias); alias == v.Name {
				continue
			}
			if listed == nil {
				listed = map[string]*xds.Variant{}
			}
			if other, is := listed[alias]; is && other != v {
				listed[alias] = nil
			} else {
				listed[alias] = v
			}
		}
	}
	return listed
}
