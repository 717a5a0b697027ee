package relay

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

// Virtual hosts on demand that do not exist, as far as is known. An HTTP request waits in the
// client for the answer, and Envoy takes one form of it alone: a resource without payload whose
// aliases list what was asked for (ALIAS-10).

// missingHost is a virtual host on demand that a client is sent as not existing.
type missingHost struct {
	record *record
	stated bool // the origin's own notice is sent
}

// addMissingHost notes that a virtual host a client waits for is answered as not existing. stated:
// the origin's notice is in the answer. Clients that name parameters know no aliases.
func (r *record) addMissingHost(stated bool) {
	s := r.sub
	if r.is(demanded) && s.delta && !s.located && xds.IsVirtualHost(s.typeURL) {
		a := s.aliases()
		a.missingHosts = append(a.missingHosts, missingHost{r, stated})
	}
}

// answerSilent answers a client that waits for a virtual host about which the origin is silent.
func (r *record) answerSilent() {
	if r.is(demanded) && r.sub.shard.named.silentOf(r.entry) {
		r.addMissingHost(false)
		r.owe(false)
	}
}

// addNotices adds to an answer what is sent of hosts that are missing: a notice, and the removal of
// the name. A name that the client holds is not removed because of the origin's silence.
func (s *Sub) addNotices(own *Body, remove func(heldName)) {
	var names []string
	for _, x := range s.alias.missingHosts {
		name := x.record.entry.name
		spelt := s.spelling(name, "")
		if !x.stated {
			names = append(names, spelt)
		}
		if !s.stillSelects(name) {
			remove(heldName{name: name, spelt: spelt})
		}
	}
	s.alias.missingHosts = nil
	version := strconv.FormatInt(s.shard.now.UnixNano(), 36) + "." + strconv.FormatUint(uint64(s.takes), 36)
	for i, v := range own.Variants {
		if v.Notice() {
			own.Variants[i] = xds.NewNotice(v.Spelling(), v.Aliases, version)
		}
	}
	own.Variants = append(own.Variants, notices("unresolved", version, names)...)
}

// noticeAliases is how many aliases one notice lists at most: it cannot be cut where a message has
// to end.
const noticeAliases = 1000

// notices say that there are no virtual hosts of these names. The names of the notices are no
// host's: no Host header has a `#`. The version is to be another one each time: Envoy 1.37 takes a
// payload-less resource whose name and version it knows for a heartbeat, and the next request waits
// for ever.
func notices(what, version string, names []string) (vs []*xds.Variant) {
	slices.Sort(names)
	of := func(name string) string {
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			return name[:i]
		}
		return name // of a route configuration: all its hosts
	}
	for number := 1; len(names) > 0; number++ {
		n := 1
		for n < len(names) && n < noticeAliases && of(names[n]) == of(names[0]) {
			n++
		}
		vs = append(vs, xds.NewNotice(of(names[0])+"/"+what+"#"+strconv.Itoa(number), slices.Clone(names[:n]), version))
		names = names[n:]
	}
	return vs
}

// Refusals are `resources` fields of a delta response that end the waiting for virtual hosts which
// are refused (ALIAS-7). Each refused name is an alias in one of them: Envoy reads no
// resource_errors. version is to be another one each time.
func Refusals(names []string, version string) (fields []byte) {
	for _, v := range notices("refused", version, names) {
		fields = append(fields, v.Delta()...)
	}
	return fields
}

// UnresolvedFields are `resources` fields of a delta response for what a cursor says does not exist
// (ALIAS-5, ALIAS-10). version is to be another one each time.
func UnresolvedFields(all []cursor.Unresolved, version string) (fields [][]byte) {
	if len(all) == 0 {
		return nil
	}
	var names []string
	aliases := map[string][]string{} // by the name in the origin's words
	for _, x := range all {
		if x.Notice == nil {
			names = append(names, x.Name)
		} else {
			name := x.Notice.Spelling()
			aliases[name] = append(aliases[name], x.Notice.Aliases...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		slices.Sort(aliases[name])
		fields = append(fields, xds.NewNotice(name, slices.Compact(aliases[name]), version).Delta())
	}
	for _, v := range notices("unresolved", version, names) {
		fields = append(fields, v.Delta())
	}
	return fields
}

// park starts the clock for a virtual host that is asked.
func (n *namedTable) park(e *entry, gen uint32, now time.Time) {
	if !xds.IsVirtualHost(n.shard.typeURL) {
		return
	}
	if len(n.parked) == 0 {
		n.shard.push(timer{at: now.Add(n.shard.cfg().OnDemandWait), kind: silentHosts, shard: n.shard})
	}
	n.parked = append(n.parked, unheard{e, gen, e.asks, now})
}

// silentOnHosts looks at the virtual hosts asked on_demand_wait ago. Who waits for one of which a
// connected origin has said nothing is answered (ALIAS-10). It locks the shard.
func (n *namedTable) silentOnHosts(now time.Time) {
	s := n.shard
	s.mu.Lock()
	s.now = now
	i := 0
	wait := s.cfg().OnDemandWait
	for ; i < len(n.parked) && !n.parked[i].at.Add(wait).After(now); i++ {
		if u := n.parked[i]; u.entry.asksOn(u.gen) && n.isAsked(u.entry) {
			u.entry.onWaited()
			for w := range n.shard.group.interest.Named(s.typeURL, s.params.Key(), u.entry.name) {
				s.wake(w.owner)
			}
			for r := u.entry.head; r != nil && n.silentOf(u.entry); r = r.next {
				if r.is(demanded) {
					r.markDirty(s.rev)
				}
			}
		}
		n.parked[i] = unheard{}
	}
	if n.parked = n.parked[i:]; len(n.parked) > 0 {
		s.push(timer{at: n.parked[0].at.Add(wait), kind: silentHosts, shard: s})
	}
	s.unlock()
}

// silentOf reports whether a connected origin has been silent about a virtual host for
// on_demand_wait, and is. An error says no more of whether there is one.
func (n *namedTable) silentOf(e *entry) bool {
	return e.isSilent() && n.isAsked(e)
}
