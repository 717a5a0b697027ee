package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// change draws a change of an origin: all that it says at one time is consistent, which is that the
// clusters of all routes are there.
func (d *drawing) change(o *drawnOrigin, kind int) {
	d.serial++
	var words []string
	say := func(typ, name, body string) {
		words = append(words, typ, name+"="+body)
		o.bodies[typ+" "+name] = body
	}
	gone := func(typ, name string) {
		if o.bodies[typ+" "+name] != "" {
			words = append(words, typ, "-"+name)
			delete(o.bodies, typ+" "+name)
		}
	}
	switch {
	case !o.own:
		d.changeOther(o, say, gone)
	case kind == 0:
		d.addRoute(o, say)
	case kind == 1 || kind == 2:
		d.swap(o, say, gone)
	case kind == 3:
		d.dropRoute(o, gone)
	case kind == 4:
		if name := d.pick(o, "cds c"); name != "" {
			say("cds", name, d.body("eds"))
		}
	case kind == 5 || kind == 6:
		if name := d.pick(o, "eds c"); name != "" {
			d.endpoints(o, name, say)
		}
	case kind == 7:
		say("lds", fmt.Sprint("l", d.rnd.IntN(4)), d.body(d.mark()+"l"))
		if d.has["secrets"] {
			say("sds", fmt.Sprint("s", d.rnd.IntN(3)), d.body("s"))
		}
	case kind == 8 && d.has["globs"]:
		typ, name := []string{"cds", "eds"}[d.rnd.IntN(2)], fmt.Sprint("//mesh/d/x", d.rnd.IntN(3))
		if d.one(3) {
			gone(typ, name)
		} else {
			say(typ, name, d.body(d.mark()+"g"))
		}
	case kind == 9 && d.has["namespaces"]:
		d.host(o, &words, gone)
	case kind == 10 && d.has["guard"]:
		for i := range 6 {
			if o.mass {
				gone("cds", fmt.Sprint("m", i))
			} else {
				say("cds", fmt.Sprint("m", i), d.body("m"))
			}
		}
		o.mass = !o.mass
	case d.has["params"]:
		d.variants(o, say, gone)
	default:
		if name := d.pick(o, "lds l"); name != "" && d.one(2) {
			gone("lds", name)
		}
	}
	if len(words) > 0 {
		d.say("%s %s", o.name, strings.Join(words, " "))
	}
}

func (d *drawing) body(prefix string) string {
	d.serial++
	return fmt.Sprint(prefix, d.serial)
}

// mark is the beginning of a body that has a TTL, or must not be cached; mostly of none of them.
func (d *drawing) mark() string {
	if d.has["ttl"] && d.one(3) {
		return "t"
	}
	if d.has["uncached"] && d.one(4) {
		return "u"
	}
	return ""
}

// pick is a name that the origin has; prefix is its type and the first letter.
func (d *drawing) pick(o *drawnOrigin, prefix string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(o.bodies)) {
		if strings.HasPrefix(key, prefix) && !strings.Contains(key, "{") {
			all = append(all, key[4:])
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[d.rnd.IntN(len(all))]
}

type (
	sayBody func(typ, name, body string)
	sayGone func(typ, name string)
)

// addCluster has a cluster that no route is at become one with endpoints.
func (d *drawing) addCluster(o *drawnOrigin, say sayBody) string {
	name := fmt.Sprint("c", d.rnd.IntN(6))
	say("cds", name, d.body("eds"))
	if o.bodies["eds "+name] == "" || d.one(2) {
		d.endpoints(o, name, say)
	}
	return name
}

// endpoints change, sometimes to what they were before.
func (d *drawing) endpoints(o *drawnOrigin, name string, say sayBody) {
	body := d.body(d.mark() + "e")
	if was := o.was[name]; len(was) > 0 && d.one(4) {
		body = was[d.rnd.IntN(len(was))]
	}
	o.was[name] = append(o.was[name], body)
	say("eds", name, body)
}

func (d *drawing) addRoute(o *drawnOrigin, say sayBody) {
	cluster, route := d.addCluster(o, say), fmt.Sprint("r", d.rnd.IntN(4))
	o.routes[route] = cluster
	say("rds", route, d.body("r")+">"+cluster)
	if d.one(2) {
		say("lds", "l"+route[1:], d.body("l"))
	}
}

// swap has a route lead to another cluster, and the one before go, if no other route leads there.
func (d *drawing) swap(o *drawnOrigin, say sayBody, gone sayGone) {
	route := d.pick(o, "rds r")
	if route == "" {
		return
	}
	was := o.routes[route]
	cluster := d.addCluster(o, say)
	o.routes[route] = cluster
	say("rds", route, d.body("r")+">"+cluster)
	d.unused(o, was, gone)
}

func (d *drawing) unused(o *drawnOrigin, cluster string, gone sayGone) {
	for _, to := range o.routes {
		if to == cluster {
			return
		}
	}
	gone("cds", cluster)
	if d.one(2) {
		gone("eds", cluster)
	}
}

func (d *drawing) dropRoute(o *drawnOrigin, gone sayGone) {
	route := d.pick(o, "rds r")
	if route == "" {
		return
	}
	was := o.routes[route]
	delete(o.routes, route)
	gone("rds", route)
	d.unused(o, was, gone)
}

// host changes a virtual host. An alias is that of one host of a namespace at a time.
func (d *drawing) host(o *drawnOrigin, words *[]string, gone sayGone) {
	space := []string{"q", "q", "z"}[d.rnd.IntN(3)]
	name := fmt.Sprint(space, "/h", d.rnd.IntN(3))
	if d.one(4) {
		gone("vhds", name)
		return
	}
	var aliases []string
	if d.has["aliases"] {
		for i := range 2 {
			if alias := fmt.Sprint(space, "/a", i); d.one(2) {
				aliases = append(aliases, alias)
			}
		}
	}
	*words = append(*words, "vhds")
	for _, alias := range aliases { // those that had it are stated without
		for _, key := range slices.Sorted(maps.Keys(o.bodies)) {
			other, is := strings.CutPrefix(key, "vhds ")
			if !is || other == name || !slices.Contains(d.hostAliases[o.name+other], alias) {
				continue
			}
			left := slices.DeleteFunc(slices.Clone(d.hostAliases[o.name+other]), func(a string) bool { return slices.Contains(aliases, a) })
			d.hostAliases[o.name+other] = left
			o.bodies[key] = d.body("h")
			*words = append(*words, aliased(other, left)+"="+o.bodies[key])
		}
	}
	d.hostAliases[o.name+name] = aliases
	o.bodies["vhds "+name] = d.body(d.mark() + "h")
	*words = append(*words, aliased(name, aliases)+"="+o.bodies["vhds "+name])
}

func aliased(name string, aliases []string) string {
	if len(aliases) == 0 {
		return name
	}
	return name + "[" + strings.Join(aliases, ",") + "]"
}

// variants has a listener be one for all, or one for each value of a parameter.
func (d *drawing) variants(o *drawnOrigin, say sayBody, gone sayGone) {
	name := fmt.Sprint("l", d.rnd.IntN(4))
	all := []string{name + "{env=a}", name + "{env=b}", name + "{!env}"}
	if d.one(3) {
		for _, v := range all {
			gone("lds", v)
		}
		say("lds", name, d.body("l"))
		return
	}
	gone("lds", name)
	for _, v := range all {
		switch d.rnd.IntN(4) {
		case 0:
			gone("lds", v)
		case 1, 2:
			say("lds", v, d.body("v"))
		}
	}
}

// changeOther is one of an origin that is not the listener's own.
func (d *drawing) changeOther(o *drawnOrigin, say sayBody, gone sayGone) {
	typ := []string{"cds", "eds", "lds", "rds"}[d.rnd.IntN(4)]
	name := fmt.Sprintf("//%s/%s%d", o.name, typ[:1], d.rnd.IntN(4))
	if d.one(4) {
		gone(typ, name)
		return
	}
	say(typ, name, d.body(d.mark()+"o"))
}
