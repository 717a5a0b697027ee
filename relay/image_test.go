package relay

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// diskImages is what a snapshot keeps, as it would be written: nothing in it is shared with a table.
type diskImages map[string]diskImage

type diskImage struct {
	TypeImage
	bodies map[*Variant]BodyImage
}

func imageKey(origin, group, typeURL string) string { return origin + " " + group + " " + typeURL }

// snapshot brings the images up to date, and tells of those that changed what they are.
func (d *diskImages) snapshot(t *Table, now time.Time) (out []string) {
	kept := diskImages{}
	since := func(origin, group, typeURL string) uint64 {
		key := imageKey(origin, group, typeURL)
		x, has := (*d)[key]
		if has {
			kept[key] = x
		}
		return x.Revision
	}
	for x := range t.Images(since) {
		key := imageKey(x.Origin, x.Group, x.TypeURL)
		y := diskImage{TypeImage: x, bodies: map[*Variant]BodyImage{}}
		for _, v := range x.variants() {
			y.bodies[v] = v.Image(now, now)
		}
		if kept[key] = y; x.Empty() {
			delete(kept, key)
		}
		out = append(out, describe(&x)...)
	}
	*d = kept
	return out
}

func (x *TypeImage) variants() (vs []*Variant) {
	for i := range x.Sets {
		vs = append(vs, x.Sets[i].Members...)
	}
	for i := range x.Names {
		vs = append(vs, x.Names[i].Variants...)
	}
	return vs
}

// restore puts them into another table, bodies made anew.
func (d *diskImages) restore(t *Table, now time.Time) (out []string) {
	for _, x := range *d {
		y := x.TypeImage
		made := map[*Variant]*Variant{}
		again := func(vs []*Variant) (bodies []*Variant) {
			for _, v := range vs {
				if made[v] == nil {
					body, err := t.RestoreBody(now, now, y.Origin, y.TypeURL, x.bodies[v])
					if err != nil {
						out = append(out, err.Error())
						continue
					}
					made[v] = body
				}
				bodies = append(bodies, made[v])
			}
			return bodies
		}
		y.Sets, y.Names = slices.Clone(y.Sets), slices.Clone(y.Names)
		for i := range y.Sets {
			y.Sets[i].Members = again(y.Sets[i].Members)
		}
		for i := range y.Names {
			y.Names[i].Variants = again(y.Names[i].Variants)
		}
		if err := t.Restore(now, y); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// describe is an image in words, one line for each set and for all names.
func describe(x *TypeImage) (out []string) {
	say := func(vs []*Variant) (words []string) {
		for _, v := range vs {
			_, value, _ := anyParts(v.Any())
			word := fmt.Sprintf("%s=%s@%s", v.Spelling(), stringField(value, 2), v.OriginVersion())
			if len(v.aliases) > 0 {
				word += "[" + strings.Join(v.aliases, ",") + "]"
			}
			words = append(words, word)
		}
		slices.Sort(words)
		return words
	}
	flags := func(settled, retired bool) (words []string) {
		if settled {
			words = append(words, "settled")
		}
		if retired {
			words = append(words, "retired")
		}
		return words
	}
	for i := range x.Sets {
		y := &x.Sets[i]
		words := append(flags(y.Settled, y.Retired), say(y.Members)...)
		out = append(out, strings.TrimSpace(shortType(x.TypeURL)+" "+y.Selector+": "+strings.Join(words, " ")))
	}
	for i := range x.Names {
		y := &x.Names[i]
		words := append(flags(false, y.Retired), say(y.Variants)...)
		out = append(out, strings.TrimSpace(shortType(x.TypeURL)+" "+spelling(y.Name, y.Spelt)+": "+strings.Join(words, " ")))
	}
	if slices.Sort(out); x.Empty() {
		out = []string{shortType(x.TypeURL) + ": nothing"}
	}
	return out
}
