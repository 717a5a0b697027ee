package conformance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynKeepCases = []testCase{
	{"DYN-20", "weir brings no versions to its next stream of what has variants or is asked by locator, which all is", dynReconnect},
	{"DYN-10 RELAY-45", "what changes while the origin is away, a split among it, is told when it is back, and nothing else", inBoth(changedWhileAway)},
	{
		"RELAY-96 DYN-7 DYN-8", "a restart from a snapshot with variants, the origin down: each map is served its own, with its constraints",
		perDialect(variantsOnDisk),
	},
	{"DYN-10 EC-2", "a freeze holds variants as they are; when it ends each client has one update", perDialect(frozenVariants)},
	{"RELAY-97 DYN-5", "an origin that restarts without its variants takes none from anybody before guard.hold", guardedVariants},
	{"DYN-5 RELAY-50", "a variant expires for those whom it serves, and for nobody else", expiringVariant},
	{"DYN-5 ABS-9", "an error of a name is that of the maps it is stated for", perDialect(errorForOne)},
}

func dynReconnect(t *testing.T) {
	w := start(t, setup{tp2: true})
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"})
	w.origin.Set(eds, "plain", "1", relaytest.Endpoints("plain", "10.0.0.1:80"))
	c := w.seeker(relaytest.Delta)
	c.seek(eds, "n{env=prod}", "m{env=test}", "plain")
	c.has(eds, "n{env=prod}", "prod", "it arrives")
	c.has(eds, "m{env=test}", "test", "it arrives")
	c.has(eds, "plain", "10.0.0.1", "it arrives")
	c.Skip()
	w.origin.Restart()
	w.upstream(eds, "all of it is asked again", "m{env=test}", "n{env=prod}", "plain")
	for _, r := range w.origin.Open()[0].Requests() {
		for name := range r.Delta.GetInitialResourceVersions() {
			t.Errorf("%v brings a version of %s", r, name)
		}
	}
	c.WantIdle(quiet)
	c.CheckClean()
}

func changedWhileAway(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true, sotw: d == relaytest.SotW, edge: mapped})
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"})
	v1, test := w.crewOf("env=prod,ver=1"), w.crewOf("env=test")
	v1.follows("prod", "the first crew has its variant")
	test.follows("test", "the other has its own")
	before := len(test.all[0].Responses("")) + len(test.all[1].Responses(""))
	w.origin.Stop()
	w.vary(variant{when("env=prod,ver=1"), "half-1"}, variant{when("env=prod,ver=2"), "half-2"}, variant{when("env=test"), "test"})
	w.origin.Start()
	v1.follows("half-1", "the split is told")
	test.all[0].WantIdle(quiet)
	if n := len(test.all[0].Responses("")) + len(test.all[1].Responses("")); n != before {
		t.Errorf("%d responses to those whose variant is as it was", n-before)
	}
	v1.saw("prod", "half-1")
	test.saw("test")
}

func variantsOnDisk(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true})
	file, _ := w.keeps(relaytest.Delta)
	tp2(file)
	mapped(file)
	w.begin(file)
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"})
	hold := func() (all []*seeker) {
		for _, env := range []string{"prod", "test"} {
			c, plain := w.seeker(d), w.seekerAs(d, pod(t, "pod", "edge", map[string]any{"env": env}))
			c.seek(eds, "n{env="+env+"}")
			plain.seek(cds, "*")
			plain.seek(eds, "n")
			c.has(eds, "n{env="+env+"}", env, "each map has its variant, by locator")
			plain.has(eds, "n", env, "and by node")
			plain.has(cds, "c", env, "and the set of its map")
			list := w.seekerAs(relaytest.SotW, pod(t, "list", "edge", map[string]any{"env": env}))
			list.seek(cds, "*")
			list.has(cds, "c", env, "of which that is all (RELAY-7)")
			all = append(all, c, plain)
		}
		return all
	}
	for _, c := range hold() {
		c.CheckClean()
		c.Cancel()
	}
	w.weir.Stop()
	w.origin.Stop()
	w.begin(file)
	all := hold()
	for _, r := range all[0].Responses(eds) {
		for _, i := range r.Items {
			if spelling(i.Constraints) != spelling(when("env=prod")) {
				t.Errorf("%s came with %v, want the origin's constraints", i.Name, i.Constraints)
			}
		}
	}
	w.vary(variant{when("env=prod"), "prod-2"}, variant{when("env=test"), "test"})
	w.origin.Start()
	all[0].has(eds, "n{env=prod}", "prod-2", "what changed is told")
	all[1].has(eds, "n", "prod-2", "what changed is told")
	all[2].WantIdle(quiet)
	for i, env := range []string{"prod", "test"} {
		labels := map[string][]string{"prod": {"prod", "prod-2"}, "test": {"test"}}[env]
		all[2*i].got(eds, "n{env="+env+"}", labels...)
		all[2*i+1].got(eds, "n", labels...)
		all[2*i].CheckClean()
		all[2*i+1].CheckClean()
	}
}

// act does something by the admin port of the first weir.
func (w *world) act(path string) {
	w.t.Helper()
	r, err := http.Post("http://"+w.first.Admin+path, "", nil)
	if err != nil || r.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %v, %v", path, r, err)
	}
	_ = r.Body.Close()
}

// frozenVariants is about Clusters: a freeze lets the content of endpoints pass.
func frozenVariants(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true})
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"})
	p, q, test := w.seeker(d), w.seeker(d), w.seeker(d)
	p.seek(cds, "c{env=prod,ver=1}")
	q.seek(cds, "c{env=prod,ver=2}")
	test.seek(cds, "c{env=test}")
	p.has(cds, "c{env=prod,ver=1}", "prod", "it arrives")
	q.has(cds, "c{env=prod,ver=2}", "prod", "it arrives")
	test.has(cds, "c{env=test}", "test", "it arrives")
	all := []*seeker{p, q, test}
	for _, c := range all {
		c.Skip()
	}
	w.act("/origins/plane/freeze")
	was := w.origin.Asked(cds).ACKs
	w.vary(variant{when("env=prod,ver=1"), "half-1"}, variant{when("env=prod,ver=2"), "half-2"}, variant{when("env=test"), "test"})
	w.vary(variant{when("env=prod,ver=1"), "half-1"}, variant{when("env=prod,ver=2"), "half-3"}, variant{when("env=test"), "test"})
	w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs >= was+1 }, "weir takes the changes in")
	for _, c := range all {
		c.WantIdle(quiet / 2)
	}
	w.act("/origins/plane/unfreeze")
	p.has(cds, "c{env=prod,ver=1}", "half-1", "the freeze ends")
	q.has(cds, "c{env=prod,ver=2}", "half-3", "the freeze ends")
	test.WantIdle(quiet)
	p.got(cds, "c{env=prod,ver=1}", "prod", "half-1")
	q.got(cds, "c{env=prod,ver=2}", "prod", "half-3")
	test.got(cds, "c{env=test}", "test")
	for _, c := range all {
		c.CheckClean()
	}
}

func guardedVariants(t *testing.T) {
	const hold = 1500 * time.Millisecond
	w := start(t, setup{tp2: true, config: func(c weirtest.Config) {
		quickSettle(c)
		c.Origin().Set("guard.hold", hold.String())
	}})
	names := hundred()[:20]
	fill := func(envs ...string) {
		var all []relaytest.Resource
		for _, name := range names {
			for _, env := range envs {
				all = append(all, variant{when("env=" + env), env}.of(cds, name))
			}
		}
		w.origin.Replace(cds, all...)
	}
	fill("prod", "test")
	prod, test := w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)
	prod.seek(cds, "*{env=prod}")
	test.seek(cds, "*{env=test}")
	for _, name := range names {
		prod.has(cds, name+"{env=prod}", "prod", "the set of each map arrives")
		test.has(cds, name+"{env=test}", "test", "the set of each map arrives")
	}
	prod.Skip()
	test.Skip()
	w.origin.Stop()
	fill("test")
	since := time.Now()
	w.origin.Start()
	w.first.AwaitMetric(float64(len(names)), "the removals are held", "weir_guard_held_removals", `type="cds"`)
	prod.WantIdle(quiet)
	for _, name := range names {
		prod.has(cds, name+"{env=prod}", "", "when their time is over they go")
	}
	if took := time.Since(since); took < hold {
		t.Errorf("they went %v after the restart, want at least %v", took, hold)
	}
	test.WantIdle(quiet)
	prod.CheckClean()
	test.CheckClean()
}

func errorForOne(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	p, q := w.seeker(d), w.seeker(d)
	p.seek(eds, "n{env=prod}")
	q.seek(eds, "n{env=test}")
	s := w.upstream(eds, "both maps are asked", "n{env=prod}", "n{env=test}")
	s.Send(&discovery.DeltaDiscoveryResponse{
		TypeUrl: eds, Nonce: "in-error", ResourceErrors: []*discovery.ResourceError{{
			ResourceName: relaytest.VariantName("n", when("env=prod")),
			ErrorDetail:  &status.Status{Code: int32(codes.PermissionDenied), Message: "not for you"},
		}},
	})
	p.Await(0, func(st *relaytest.State) bool {
		return slices.ContainsFunc(st.Responses(eds), func(r *relaytest.Response) bool { return len(r.Errors()) == 1 })
	}, "the one map is told")
	q.WantIdle(quiet)
	s.Respond(eds, "1", variant{when("env=test"), "test"}.of(eds, "n"))
	q.has(eds, "n{env=test}", "test", "the other is served")
	for _, r := range p.Responses(eds) {
		for _, e := range r.Errors() {
			detail := e.GetErrorDetail()
			if e.GetResourceName().GetName() != "n" || !strings.Contains(detail.GetMessage(), "not for you") ||
				codes.Code(detail.GetCode()) != codes.PermissionDenied {
				t.Errorf("the error is %v", e)
			}
		}
	}
	p.CheckClean()
	q.CheckClean()
}

func expiringVariant(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2})
	p, q := w.seeker(relaytest.Delta), w.seeker(relaytest.Delta)
	p.seek(eds, "n{env=prod}")
	q.seek(eds, "n{env=test}")
	s := w.upstream(eds, "both maps are asked", "n{env=prod}", "n{env=test}")
	prod := variant{when("env=prod"), "prod"}.of(eds, "n")
	prod.TTL = time.Second
	s.Respond(eds, "1", prod, variant{when("env=test"), "test"}.of(eds, "n"))
	p.has(eds, "n{env=prod}", "prod", "each has its own")
	q.has(eds, "n{env=test}", "test", "each has its own")
	p.has(eds, "n{env=prod}", "", "the one that is not renewed goes")
	q.WantIdle(quiet)
	p.CheckClean()
	q.CheckClean()
}
