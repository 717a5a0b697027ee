package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// asked are the items of all lanes, each with its lane.
func (r *rig) asked() string {
	words := map[AskedStatus]string{
		AskedRequested: "requested", AskedHeld: "held", AskedAbsent: "absent", AskedTimeout: "timeout", AskedError: "error", AskedRefused: "refused",
	}
	var all []string
	for _, l := range Lanes(r.origin) {
		l.Items(func(it AskedItem) {
			s := fmt.Sprintf("%s %s %s", l.Name, it.Name, words[it.Status])
			if it.Version != "" {
				s += " " + it.Version
			}
			if it.Why != "" {
				s += ": " + it.Why
			}
			all = append(all, s)
		})
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// TestAsked: what the origin says of what it is asked, name by name and member by member.
func TestAsked(t *testing.T) {
	r := newRig(t, relay.OriginConfig{})
	is(t, "nothing is wanted", r.asked(), "")
	r.sub(xds.ClusterType, "", xds.Wildcard)
	r.sub(xds.EndpointType, "", "a", "b", "c")
	is(t, "before the stream", r.asked(), "main * requested; main a requested; main b requested; main c requested")
	r.open()
	u := &xds.Update{TypeURL: xds.EndpointType, Resources: []xds.Resource{r.resource("a", "", "1")}, Removed: []string{"b"}}
	u.Errors = []*relay.NameError{{Name: "c", Code: 7, Message: "not yours"}}
	if _, ok := r.lanes[0].Apply(zero, u); !ok {
		t.Fatal("never asked")
	}
	r.says(xds.ClusterType, "m=2")
	is(t, "answered", r.asked(), "main a held v1; main b absent: the origin says that it does not exist; main c error: not yours; main m held v2")

	u = &xds.Update{TypeURL: xds.ClusterType, Bad: true, Refused: []string{"m", "n"}, Reasons: []string{"broken", "worse"}}
	u.Errors = []*relay.NameError{{Name: "o", Code: 5, Message: "no such cluster"}}
	if _, ok := r.lanes[0].Apply(zero, u); !ok {
		t.Fatal("never asked")
	}
	is(t, "refused", r.asked(), "main a held v1; main b absent: the origin says that it does not exist; main c error: not yours; "+
		"main m refused v2: broken; main n refused: worse; main o absent: no such cluster")
}
