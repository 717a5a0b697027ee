package downstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// worldFeatures are those that a play draws. Each seed has its own set of them; what a feature needs
// comes with it.
var worldFeatures = []string{
	"sotw origin", "delta clients", "sotw clients", "apart", "pertype", "star", "names", "globs", "namespaces", "aliases", "params", "locators", "ttl",
	"permits", "origins", "guard", "freeze", "canary", "rollback", "secrets", "identity", "uncached", "restarts", "outages", "mutes", "late", "refused",
	"returns", "slow",
}

// drawn is a play: its features, and its lines.
type drawn struct {
	features []string
	lines    []string
}

// drawing draws a play. It looks at nothing but the random numbers and what it has drawn, so a seed
// is the same play for every core.
type drawing struct {
	rnd     *rand.Rand
	has     map[string]bool
	lines   []string
	serial  int
	clients []*drawnClient
	ids     int
	origins []*drawnOrigin
	saved   bool
	// hostAliases are those of virtual hosts, by origin and name.
	hostAliases map[string][]string
}

// drawnOrigin is what an origin has.
type drawnOrigin struct {
	name       string
	own        bool
	down, mute bool
	bodies     map[string]string // by TYPE NAME
	routes     map[string]string // cluster by route
	frozen     bool
	held       map[string]bool
	mass       bool
	was        map[string][]string // bodies of endpoints there were
}

type drawnClient struct {
	name    string
	delta   bool
	canary  bool
	stopped bool
	wants   map[string]map[string]bool
}

// drawPlay draws the play of a seed, with so many steps, without some of the features.
func drawPlay(seed uint64, steps int, without ...string) drawn {
	d := &drawing{rnd: rand.New(rand.NewPCG(seed, 39)), has: map[string]bool{}, hostAliases: map[string][]string{}}
	for _, f := range worldFeatures {
		d.has[f] = d.rnd.IntN(3) == 0 && !slices.Contains(without, f)
	}
	d.fit()
	d.begin()
	for i := range steps {
		d.step()
		if i%45 == 44 || i == steps-1 {
			d.rest()
		}
	}
	p := drawn{lines: d.lines}
	for _, f := range worldFeatures {
		if d.has[f] {
			p.features = append(p.features, f)
		}
	}
	return p
}

// fit makes a set of features one that can be.
func (d *drawing) fit() {
	if !d.has["delta clients"] && !d.has["sotw clients"] {
		d.has[[]string{"delta clients", "sotw clients"}[d.rnd.IntN(2)]] = true
	}
	if !d.has["star"] && !d.has["names"] {
		d.has[[]string{"star", "names"}[d.rnd.IntN(2)]] = true
	}
	if d.has["sotw origin"] { // it has no words for these
		d.has["params"], d.has["locators"], d.has["globs"], d.has["namespaces"], d.has["aliases"], d.has["uncached"] = false, false, false, false, false, false
	}
	if d.has["aliases"] { // the origin here knows no variants by aliases
		d.has["namespaces"], d.has["params"], d.has["locators"] = true, false, false
	}
	d.has["params"] = d.has["params"] || d.has["locators"]
	if d.has["namespaces"] && !d.has["delta clients"] { // VHDS is delta alone
		d.has["delta clients"] = true
	}
}

func (d *drawing) say(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *drawing) one(n int) bool { return d.rnd.IntN(n) == 0 }

func (d *drawing) begin() {
	options := func(sotw bool) string {
		words := []string{"delta"}
		if sotw {
			words[0] = "sotw"
		}
		for feature, option := range map[string]string{"pertype": "pertype"} {
			if d.has[feature] {
				words = append(words, option)
			}
		}
		return strings.Join(words, "+")
	}
	own := options(d.has["sotw origin"])
	for _, x := range []struct{ feature, option string }{{"guard", "guard"}, {"canary", "canary"}, {"params", "params"}, {"secrets", "secrets"}, {"identity", "identity"}} {
		if d.has[x.feature] {
			own += "+" + x.option
		}
	}
	words := []string{"mesh=" + own}
	d.origins = append(d.origins, newDrawnOrigin("mesh", true))
	if d.has["origins"] {
		for _, name := range []string{"east", "west"}[:1+d.rnd.IntN(2)] {
			words = append(words, name+"="+options(d.one(3)))
			d.origins = append(d.origins, newDrawnOrigin(name, false))
		}
	}
	d.say("world %s", strings.Join(words, " "))
	if d.has["permits"] {
		d.rules()
	}
	for _, o := range d.origins {
		for range 3 {
			d.change(o, 0)
		}
		d.change(o, 7)
	}
	for range 2 {
		d.client()
	}
}

func newDrawnOrigin(name string, own bool) *drawnOrigin {
	return &drawnOrigin{name: name, own: own, bodies: map[string]string{}, routes: map[string]string{}, held: map[string]bool{}, was: map[string][]string{}}
}

// identities are those of clients, where there are any.
var worldIdentities = []string{"spiffe://w/one", "spiffe://w/two"}

// rules: the first may have everything, and the second some of the names.
func (d *drawing) rules() {
	names := []string{"*"}[:0]
	for _, name := range d.plainNames() {
		if d.one(2) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || d.one(6) {
		names = []string{"**"}
	}
	d.say("rules %s ** %s %s", worldIdentities[0], worldIdentities[1], strings.Join(names, ","))
}

func (d *drawing) plainNames() (all []string) {
	for i := range 6 {
		all = append(all, fmt.Sprint("c", i))
	}
	for i := range 4 {
		all = append(all, fmt.Sprint("r", i), fmt.Sprint("l", i))
	}
	return all
}

func (d *drawing) client() {
	if len(d.clients) >= 5 {
		return
	}
	d.ids++
	c := &drawnClient{name: fmt.Sprint("k", d.ids), wants: map[string]map[string]bool{}}
	c.delta = d.has["delta clients"] && (!d.has["sotw clients"] || d.one(2))
	words := []string{"client", c.name, map[bool]string{true: "delta", false: "sotw"}[c.delta]}
	for _, x := range []struct {
		feature, word string
		of            int
	}{{"apart", "apart", 2}, {"late", "late", 2}, {"ttl", "ttl", 2}, {"canary", "canary", 2}} {
		if d.has[x.feature] && d.one(x.of) {
			words = append(words, x.word)
			c.canary = c.canary || x.word == "canary"
		}
	}
	if d.has["permits"] || d.has["secrets"] || d.has["identity"] {
		words = append(words, "as="+worldIdentities[d.rnd.IntN(2)])
	}
	if d.has["params"] && !d.one(3) {
		words = append(words, "env="+[]string{"a", "b"}[d.rnd.IntN(2)])
	}
	d.clients = append(d.clients, c)
	d.say("%s", strings.Join(words, " "))
	for range 3 {
		d.wants(c)
	}
}

// typesOf are the types that a client may want.
func (d *drawing) typesOf(c *drawnClient) []string {
	all := []string{"cds", "eds", "rds", "lds", "cds", "rds"}
	if d.has["namespaces"] && c.delta {
		all = append(all, "vhds", "vhds")
	}
	if d.has["secrets"] {
		all = append(all, "sds")
	}
	return all
}

// wants changes what a client wants of a type.
func (d *drawing) wants(c *drawnClient) {
	types := d.typesOf(c)
	typ := types[d.rnd.IntN(len(types))]
	if c.wants[typ] == nil {
		c.wants[typ] = map[string]bool{}
	}
	var words []string
	for range 1 + d.rnd.IntN(3) {
		name := d.selector(typ)
		if slices.ContainsFunc(words, func(w string) bool { return w[1:] == name }) {
			continue
		}
		switch has := c.wants[typ][name]; {
		case has && d.one(2):
			words = append(words, "-"+name)
			delete(c.wants[typ], name)
		case !has:
			words = append(words, "+"+name)
			c.wants[typ][name] = true
		}
	}
	if len(words) > 0 {
		d.say("%s wants %s %s", c.name, typ, strings.Join(words, " "))
	}
}

// selector is something that can be asked for of a type.
func (d *drawing) selector(typ string) string {
	if typ == "vhds" {
		all := []string{"q", "q/h0", "q/h1", "z/h0"}
		if d.has["aliases"] {
			all = append(all, "q/a0", "q/a1", "z/a0", "q/a0", "q/a1")
		}
		return all[d.rnd.IntN(len(all))]
	}
	if len(d.origins) > 1 && d.one(4) {
		o := d.origins[1+d.rnd.IntN(len(d.origins)-1)]
		return fmt.Sprintf("//%s/%s%d", o.name, typ[:1], d.rnd.IntN(4))
	}
	if d.has["globs"] && (typ == "cds" || typ == "eds") && d.one(3) {
		return []string{"//mesh/d/*", "//mesh/d/x0", "//mesh/d/x1", "//mesh/d/*"}[d.rnd.IntN(4)]
	}
	if d.has["star"] && (!d.has["names"] || d.one(3)) {
		return "*"
	}
	if d.has["locators"] && typ == "lds" && d.one(2) {
		return fmt.Sprint("l", d.rnd.IntN(4), []string{"{env=a}", "{env=b}", "{}"}[d.rnd.IntN(3)])
	}
	if typ == "eds" {
		return fmt.Sprint("c", d.rnd.IntN(6))
	}
	return fmt.Sprint(typ[:1], d.rnd.IntN(map[string]int{"cds": 6, "rds": 4, "lds": 4, "sds": 3}[typ]))
}

func (d *drawing) step() {
	o := d.origins[0]
	if len(d.origins) > 1 && d.one(3) {
		o = d.origins[1+d.rnd.IntN(len(d.origins)-1)]
	}
	var c *drawnClient
	if len(d.clients) > 0 {
		c = d.clients[d.rnd.IntN(len(d.clients))]
	}
	switch k := d.rnd.IntN(100); {
	case k < 34:
		d.change(o, d.rnd.IntN(12))
	case k < 38 || c == nil:
		d.client()
	case k < 54:
		d.wants(c)
	case k < 70:
		d.say("wait %dms", []int{1, 10, 30, 100, 400, 900, 2500, 6000}[d.rnd.IntN(8)])
	case k < 80:
		d.answers(c)
	case k < 88:
		d.trouble(o, c)
	case k < 98:
		d.orders(o)
	default:
		d.say("%s leaves", c.name)
		d.clients = slices.DeleteFunc(d.clients, func(x *drawnClient) bool { return x == c })
	}
}

// answers are those of late clients, and rejections.
func (d *drawing) answers(c *drawnClient) {
	switch {
	case d.has["refused"] && d.one(4):
		d.say("%s nacks", c.name)
	case d.has["late"]:
		d.say("%s acks", c.name)
	}
}

// trouble is what befalls streams and processes.
func (d *drawing) trouble(o *drawnOrigin, c *drawnClient) {
	var can []func()
	add := func(feature string, f func()) {
		if d.has[feature] {
			can = append(can, f)
		}
	}
	add("outages", func() {
		o.down = !o.down
		d.say("%s %s", o.name, map[bool]string{true: "down", false: "up"}[o.down])
	})
	add("mutes", func() {
		o.mute = !o.mute
		d.say("%s %s", o.name, map[bool]string{true: "mutes", false: "speaks"}[o.mute])
	})
	add("returns", func() { d.say("%s returns%s", c.name, []string{"", " empty"}[d.rnd.IntN(2)]) })
	add("slow", func() {
		c.stopped = !c.stopped
		d.say("%s %s", c.name, map[bool]string{true: "stops", false: "resumes"}[c.stopped])
	})
	add("restarts", func() {
		if d.one(2) {
			d.say("save")
			d.saved = true
		} else if d.saved {
			d.say("restart")
		}
	})
	add("permits", d.rules)
	if len(can) > 0 {
		can[d.rnd.IntN(len(can))]()
	}
}

// orders are what operators say.
func (d *drawing) orders(o *drawnOrigin) {
	var can []func()
	if d.has["freeze"] {
		can = append(can, func() {
			o.frozen = !o.frozen
			d.say("%s %s", o.name, map[bool]string{true: "freeze", false: "unfreeze"}[o.frozen])
		})
	}
	if d.has["guard"] && o.own {
		can = append(can, func() { d.say("%s release", o.name) })
	}
	tiers := []string{"newest"}
	if d.has["canary"] && o.own {
		tiers = []string{"canary", "rest"}
		can = append(can, func() { // what a gate does: the rest stay, are promoted, or follow
			switch d.rnd.IntN(4) {
			case 0:
				o.held["rest"] = false
				d.say("%s follow rest", o.name)
			case 1:
				o.held["rest"] = true
				d.say("%s hold rest canary", o.name)
			default:
				o.held["rest"] = true
				d.say("%s hold rest now", o.name)
			}
		})
	}
	if d.has["rollback"] {
		can = append(can, func() {
			back := d.rnd.IntN(4)
			all := d.one(2)
			for _, tier := range tiers {
				if !all && d.one(2) {
					continue
				}
				if o.held[tier] = !o.held[tier] || d.one(3); o.held[tier] {
					d.say("%s hold %s %d", o.name, tier, back)
				} else {
					d.say("%s follow %s", o.name, tier)
				}
			}
		})
	}
	if len(can) > 0 {
		can[d.rnd.IntN(len(can))]()
	}
}

// rest ends, or keeps, what operators ordered, and has all come to rest.
func (d *drawing) rest() {
	ends := d.one(2)
	for _, o := range d.origins {
		o.down, o.mute = false, false
		if ends && o.frozen {
			o.frozen = false
			d.say("%s unfreeze", o.name)
		}
		for _, tier := range slices.Sorted(maps.Keys(o.held)) {
			if ends && o.held[tier] {
				o.held[tier] = false
				d.say("%s follow %s", o.name, tier)
			}
		}
	}
	for _, c := range d.clients {
		c.stopped = false
	}
	d.say("rest")
}
