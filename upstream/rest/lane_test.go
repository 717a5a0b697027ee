package rest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// An unchanged set costs the origin a 304; a changed one is taken with all it has lost.
func TestPolls(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(clusters, "1", cluster("x"), cluster("y"))
		w.want(cds, "*")
		w.wantHeld(cds, "what the first poll brings", "x", "y")
		p := w.one("the first poll comes at once")
		if p.GetVersionInfo() != "" || len(p.GetResourceNames()) != 0 || p.GetNode().GetCluster() != "edge" || p.GetTypeUrl() != cds {
			t.Errorf("it asks for everything, with the node: %v", p)
		}
		if p.header.Get("Content-Type") != "application/json" || p.header.Get("Weir-Via") != "weir-1" {
			t.Errorf("its headers are %v", p.header)
		}
		last := p.at
		for range 5 {
			// or ten percent less each time add up to a second one
			sleep(time.Until(last.Add(5600 * time.Millisecond)))
			p = w.one("one poll each 5 s")
			if p.GetVersionInfo() != "1" || p.GetResponseNonce() != "n1" || p.GetErrorDetail() != nil {
				t.Errorf("it presents what it has: %v", p)
			}
			if d := p.at.Sub(last); d < 4500*time.Millisecond || d > 5500*time.Millisecond {
				t.Errorf("polled after %v", d)
			}
			last = p.at
		}
		w.serve(clusters, "2", cluster("y"))
		sleep(6 * time.Second)
		w.wantHeld(cds, "what is left out is gone", "y")
		w.serve(clusters, "3")
		sleep(6 * time.Second)
		w.wantHeld(cds, "an empty set is stated by its version")
		if st := w.up.Status(); !st.Connected || st.Address != "http://a" || st.Lanes[0].Types[0].Version != "3" {
			t.Errorf("the status is %+v", st)
		}
	})
}

// Each type is polled on a path of its own; those without one are refused by the table.
func TestTypes(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(clusters, "1", cluster("x"))
		w.serve(endpoints, "1", assignment("x"))
		w.serve(listeners, "1")
		w.want(cds, "*")
		w.want(eds, "x")
		w.want(lds, "*")
		w.want(xds.VirtualHostType, "x/y")
		w.want("type.googleapis.com/example.Other", "x")
		sleep(time.Second)
		w.wantHeld(eds, "what is named", "x")
		var paths []string
		for _, p := range w.taken() {
			paths = append(paths, p.path)
			if p.path == endpoints && !slices.Equal(p.GetResourceNames(), []string{"x"}) {
				t.Errorf("the names are %v", p.GetResourceNames())
			}
		}
		slices.Sort(paths)
		if !slices.Equal(paths, []string{clusters, endpoints, listeners}) {
			t.Errorf("polled are %q", paths)
		}
		for _, typeURL := range []string{xds.VirtualHostType, xds.LbEndpointType} {
			if w.table.Origin("rest").Serves(typeURL) {
				t.Errorf("%s is not to be had (REST-8)", typeURL)
			}
		}
	})
}

// A name that is wanted anew is polled for at once, with all others, and without a version: a
// server whose version covers more than the names that it is asked for would answer 304.
func TestNewNames(t *testing.T) {
	in(t, func(c *Config) { c.Poll = time.Minute }, func(w *world) {
		w.serve(endpoints, "1", assignment("a"), assignment("b"), assignment("c"))
		w.want(eds, "a")
		w.wantHeld(eds, "the first name", "a")
		w.one("one poll")
		b := w.want(eds, "b")
		w.want(eds, "c")
		sleep(100 * time.Millisecond)
		p := w.one("names are collected")
		if p.GetVersionInfo() != "" || !slices.Equal(p.GetResourceNames(), []string{"a", "b", "c"}) {
			t.Errorf("the poll is %v", p)
		}
		w.wantHeld(eds, "all are there", "a", "b", "c")
		sleep(66 * time.Second)
		if p := w.one("the next when it is due"); p.GetVersionInfo() != "1" {
			t.Errorf("the poll is %v", p)
		}
		b.Close(time.Now())
		sleep(66 * time.Second)
		for _, p := range w.taken() {
			if !slices.Equal(p.GetResourceNames(), []string{"a", "c"}) && len(p.GetResourceNames()) != 3 {
				t.Errorf("the poll is %v", p)
			}
		}
		w.want(eds, "d")
		sleep(16 * time.Second)
		if n := inspect.Status(w.table.Origin("rest"))[0].Types[0].Absent; n != 1 {
			t.Errorf("%d absent: what a server that answers leaves out does not exist (ABS-5)", n)
		}
	})
}

// A name that is wanted while the first poll is on its way is not covered by the version which that
// brings, so the next poll presents none. It would be answered by 304 for ever, and the name taken
// to be absent (ABS-5).
func TestNamesDuringTheFirstPoll(t *testing.T) {
	in(t, nil, func(w *world) {
		w.answer(endpoints, func(p poll) (int, string) {
			time.Sleep(time.Second)
			if p.GetVersionInfo() == "1" {
				return http.StatusNotModified, ""
			}
			var all []string
			for _, name := range p.GetResourceNames() {
				all = append(all, assignment(name))
			}
			return http.StatusOK, `{"versionInfo":"1","resources":[` + strings.Join(all, ",") + `]}`
		})
		w.want(eds, "a")
		sleep(500 * time.Millisecond)
		w.want(eds, "b")
		sleep(2 * time.Second)
		w.wantHeld(eds, "both are there after two polls", "a", "b")
		ps := w.taken()
		if last := ps[len(ps)-1]; len(ps) != 2 || last.GetVersionInfo() != "" {
			t.Errorf("the polls are %v", ps)
		}
	})
}

// A 304 to a poll that presents no version is no answer: nothing is known by it, and no silence
// begins.
func TestUnasked304(t *testing.T) {
	in(t, nil, func(w *world) {
		w.answer(clusters, func(poll) (int, string) { return http.StatusNotModified, "" })
		w.want(cds, "*")
		sleep(time.Second)
		if st := w.up.Status(); st.Connected || !strings.Contains(st.Err, "304") {
			t.Errorf("the status is %+v", st)
		}
	})
}

// Names that come faster than they are collected do not put the poll off.
func TestChurn(t *testing.T) {
	in(t, func(c *Config) { c.Poll = time.Minute }, func(w *world) {
		w.serve(endpoints, "1", assignment("a"))
		w.want(eds, "a")
		sleep(time.Second)
		w.taken()
		for i := range 200 {
			w.want(eds, "n"+strconv.Itoa(i))
			sleep(5 * time.Millisecond)
		}
		if n := len(w.taken()); n < 20 || n > 110 {
			t.Errorf("%d polls in a second of new names, each collected for 10 ms", n)
		}
	})
}

// What has a TTL is fetched anew by each poll, or it would expire.
func TestTTL(t *testing.T) {
	in(t, nil, func(w *world) {
		wrapped := `{"@type":"type.googleapis.com/envoy.service.discovery.v3.Resource","name":"x","ttl":"8s","resource":` + cluster("x") + `}`
		w.serve(clusters, "1", wrapped)
		w.want(cds, "*")
		for range 4 {
			sleep(6 * time.Second)
			w.wantHeld(cds, "each poll renews it", "x")
		}
		for _, p := range w.taken() {
			if p.GetVersionInfo() != "" {
				t.Errorf("a 304 would renew nothing: %v", p)
			}
		}
	})
}

// Whatever fails, what is held stays, and the origin is asked again after growing pauses.
func TestOutage(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"unreachable": func(w *world) { w.set(func() { w.down["a"] = true }) },
		"error":       func(w *world) { w.answer(clusters, func(poll) (int, string) { return 500, "broken" }) },
		"forbidden":   func(w *world) { w.answer(clusters, func(poll) (int, string) { return 403, "no" }) },
		"redirect":    func(w *world) { w.answer(clusters, func(poll) (int, string) { return 302, "" }) },
		"no JSON":     func(w *world) { w.answer(clusters, func(poll) (int, string) { return 200, "<html>" }) },
		"error page":  func(w *world) { w.answer(clusters, func(poll) (int, string) { return 200, `{"error":"oops"}` }) },
		"empty":       func(w *world) { w.answer(clusters, func(poll) (int, string) { return 200, "{}" }) },
		"null":        func(w *world) { w.answer(clusters, func(poll) (int, string) { return 200, `{"resources":null}` }) },
		"other type": func(w *world) {
			w.answer(clusters, func(poll) (int, string) { return 200, `{"versionInfo":"2","typeUrl":"` + lds + `"}` })
		},
		"long": func(w *world) {
			w.answer(clusters, func(poll) (int, string) { return 200, `{"versionInfo":"` + strings.Repeat("2", 2000) + `"}` })
		},
		"hangs": func(w *world) { w.answer(clusters, func(poll) (int, string) { return 0, "" }) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(c *Config) { c.MaxMessage = 1000 }, func(w *world) {
				w.serve(clusters, "1", cluster("x"))
				w.want(cds, "*")
				w.wantHeld(cds, "before", "x")
				w.taken()
				fail(w)
				sleep(time.Minute)
				w.wantHeld(cds, "during", "x")
				polls := len(w.taken())
				if most := 16; polls < 3 || polls > most {
					t.Errorf("%d polls in a minute, want at most %d", polls, most)
				}
				st := w.up.Status()
				if st.Connected || st.Err == "" || st.Failures < 2 || st.Lanes[0].Open {
					t.Errorf("the status is %+v", st)
				}
				if n := w.lines("the origin does not answer"); n != 1 {
					t.Errorf("%d lines", n)
				}
				w.set(func() { w.down["a"] = false })
				w.serve(clusters, "2", cluster("x"), cluster("y"))
				sleep(20 * time.Second)
				w.wantHeld(cds, "after", "x", "y")
				if st := w.up.Status(); !st.Connected || st.Err != "" || st.Failures != 0 {
					t.Errorf("the status is %+v", st)
				}
				if n := w.lines("the origin answers"); n != 2 {
					t.Errorf("%d lines", n)
				}
			})
		})
	}
}

// Nothing is absent because the server does not answer (ERR-5).
func TestSilenceOfNobody(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(endpoints, "1", assignment("a"))
		w.want(eds, "a")
		sleep(time.Second)
		w.answer(endpoints, func(poll) (int, string) { return 0, "" })
		w.want(eds, "b")
		sleep(5 * time.Minute)
		if n := inspect.Status(w.table.Origin("rest"))[0].Types[0].Absent; n != 0 {
			t.Errorf("%d absent", n)
		}
	})
}

// A type that the server does not know takes nothing from the others.
func TestUnknownType(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(clusters, "1", cluster("x"))
		w.want(cds, "*")
		w.want(lds, "*")
		sleep(time.Minute)
		w.wantHeld(cds, "the other type", "x")
		if st := w.up.Status(); !st.Connected || !strings.Contains(st.Err, "404") {
			t.Errorf("the status is %+v", st)
		}
		n := 0
		for _, p := range w.taken() {
			if p.path == listeners {
				n++
			}
		}
		if n > 20 {
			t.Errorf("%d polls for it in a minute", n)
		}
	})
}

// What cannot be taken is refused by name with the next poll; the rest counts, and nothing is gone
// for being left out (REST-5, REST-9, RELAY-32).
func TestRefusals(t *testing.T) {
	for name, row := range map[string]struct{ bad, want string }{
		"unknown message within": {
			`{"@type":"` + cds + `","name":"bad","typedExtensionProtocolOptions":{"k":{"@type":"type.googleapis.com/example.Nothing"}}}`,
			`resource "bad": `,
		},
		"unknown field": {`{"@type":"` + cds + `","name":"bad","fieldOfTomorrow":1}`, `unknown field "fieldOfTomorrow"`},
		"another type":  {`{"@type":"` + eds + `","clusterName":"bad"}`, "has type"},
		"twice":         {cluster("y"), "listed twice"},
		"no type":       {`{"name":"bad"}`, `resource "bad": `},
		"no object":     {`7`, "resources[2]: "},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nil, func(w *world) {
				w.serve(clusters, "1", cluster("x"), cluster("bad"))
				w.want(cds, "*")
				w.wantHeld(cds, "before", "bad", "x")
				w.serve(clusters, "2", cluster("x"), cluster("y"), row.bad)
				sleep(6 * time.Second)
				w.wantHeld(cds, "the rest counts, and what is refused stays", "bad", "x", "y")
				w.taken()
				sleep(5 * time.Second)
				p := w.one("the refusal goes out with the next poll")
				if p.GetVersionInfo() != "1" || p.GetResponseNonce() != "n2" || !strings.Contains(p.GetErrorDetail().GetMessage(), row.want) {
					t.Errorf("the poll is %v", p)
				}
				sleep(10 * time.Minute)
				if n := len(w.taken()); n > 20 {
					t.Errorf("%d polls in ten minutes for what is refused each time", n)
				}
				if n := w.lines("rejected a response"); n != 1 {
					t.Errorf("%d lines", n)
				}
				w.serve(clusters, "3", cluster("y"))
				sleep(70 * time.Second)
				w.wantHeld(cds, "in order again", "y")
				sleep(6 * time.Second)
				if ps := w.taken(); ps[len(ps)-1].GetVersionInfo() != "3" || ps[len(ps)-1].GetErrorDetail() != nil {
					t.Errorf("the last poll is %v", ps[len(ps)-1])
				}
			})
		})
	}
}

// TestFormsOfEnvoy: what Envoy reads in the JSON of a server beyond the canonical form is read, and
// logged once (FILE-1).
func TestFormsOfEnvoy(t *testing.T) {
	in(t, nil, func(w *world) {
		body := func(version string) string {
			return `{"version_info": "` + version + `", "resources": {"@type": "` + cds + `", "name": "x", "lb_policy": "maglev",
				"connect_timeout": {"seconds": 3}, "respect_dns_ttl": "true", "health_checks": {"timeout": "1s"}}}`
		}
		w.answer(clusters, func(poll) (int, string) { return http.StatusOK, body("1") })
		w.want(cds, "*")
		w.wantHeld(cds, "it is read", "x")
		w.answer(clusters, func(poll) (int, string) { return http.StatusOK, body("2") })
		sleep(12 * time.Second)
		if p := w.taken(); p[len(p)-1].GetVersionInfo() != "2" || w.lines("not canonical") != 1 || w.lines("enum in another case") != 1 {
			t.Errorf("the last poll is %v, and the log says %v", p[len(p)-1], w.logs.All())
		}
	})
}

// The next URL is taken at once for who has nothing, and for others when the first is lost for
// cold_wait; the first takes over again (FED-6).
func TestURLs(t *testing.T) {
	two := func(c *Config) { c.URLs = []string{"http://a", "http://b"} }
	in(t, two, func(w *world) {
		w.serve("a "+clusters, "1", cluster("x"))
		w.serve("b "+clusters, "1", cluster("x"), cluster("b"))
		w.want(cds, "*")
		sleep(time.Second)
		w.wantHeld(cds, "the first is asked", "x")
		w.set(func() { w.down["a"] = true })
		sleep(8 * time.Second)
		w.wantHeld(cds, "who holds something waits", "x")
		for _, p := range w.taken() {
			if p.host == "b" {
				t.Errorf("the second was asked at %v", p.at)
			}
		}
		sleep(12 * time.Second)
		w.wantHeld(cds, "the second takes over", "b", "x")
		if st := w.up.Status(); !st.Connected || st.Address != "http://b" {
			t.Errorf("the status is %+v", st)
		}
		for _, p := range w.taken() {
			if p.host != "b" {
				continue
			}
			if p.GetVersionInfo() != "" {
				t.Error("a version was presented to a server that has not given it (FED-7)")
			}
			break
		}
		sleep(time.Minute)
		atA, atB := 0, 0
		for _, p := range w.taken() {
			if p.host == "a" {
				atA++
			} else if atB++; p.GetVersionInfo() != "1" {
				t.Errorf("the second is presented its own version: %v", p)
			}
		}
		if atA < 5 || atB < 10 {
			t.Errorf("%d polls at the first, %d at the second", atA, atB)
		}
		w.set(func() { w.down["a"] = false })
		sleep(40 * time.Second) // what goes after a reconnect may be held back
		w.wantHeld(cds, "the first again", "x")
		if st := w.up.Status(); st.Address != "http://a" {
			t.Errorf("the status is %+v", st)
		}
	})
	in(t, two, func(w *world) {
		w.set(func() { w.down["a"] = true })
		w.serve("b "+clusters, "1", cluster("b"))
		w.want(cds, "*")
		sleep(100 * time.Millisecond)
		w.wantHeld(cds, "at once for who has nothing", "b")
	})
}

// A lost server is tried by one lane at a time, and its return is everybody's.
func TestOneLaneTriesALostServer(t *testing.T) {
	in(t, nil, func(w *world) {
		w.set(func() { w.down["a"] = true })
		for _, g := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			w.group = w.groupOf(g)
			w.want(cds, "*")
		}
		sleep(time.Minute)
		if n := len(w.taken()); n > 25 {
			t.Errorf("%d polls of eight lanes in a minute", n)
		}
		w.set(func() { w.down["a"] = false })
		// it hangs, instead of refusing
		w.answer(clusters, func(poll) (int, string) { return 0, "" })
		sleep(time.Minute)
		if n := len(w.taken()); n > 10 {
			t.Errorf("%d polls of eight lanes in a minute", n)
		}
		w.serve(clusters, "1", cluster("x"))
		sleep(16100 * time.Millisecond)
		open := 0
		for _, l := range w.up.Status().Lanes {
			if l.Open {
				open++
			}
		}
		if open != 8 {
			t.Errorf("%d of 8 lanes are open", open)
		}
	})
}

// A server may hold a poll until something changes; what is wanted meanwhile breaks it off.
func TestLongPolls(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(endpoints, "1", assignment("a"), assignment("b"))
		w.want(eds, "a")
		sleep(time.Second)
		w.taken()
		w.set(func() { w.holds = true })
		sleep(7 * time.Second)
		if p := w.one("the poll is held"); p.GetVersionInfo() != "1" {
			t.Errorf("it is %v", p)
		}
		w.want(eds, "b")
		sleep(time.Second)
		w.wantHeld(eds, "at once", "a", "b")
		if st := w.up.Status(); !st.Connected || st.Failures != 0 {
			t.Errorf("the status is %+v", st)
		}
	})
}

// Run ends, and another goes on with what is held.
func TestHandover(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(clusters, "1", cluster("x"))
		w.want(cds, "*")
		w.wantHeld(cds, "before", "x")
		w.stop()
		next, err := New(w.up.cfg, w.table.Origin("rest"))
		if err != nil {
			t.Fatal(err)
		}
		next.client.Transport = w.script
		next.Succeed(w.up)
		if st := next.Status(); !st.Connected || st.ProofAt.IsZero() {
			t.Errorf("the status is %+v", st)
		}
		w.up = next
		w.serve(clusters, "2", cluster("y"))
		w.run()
		sleep(time.Second)
		w.wantHeld(cds, "after", "y")
	})
}

// What nobody wants is polled for no more.
func TestLinger(t *testing.T) {
	in(t, nil, func(w *world) {
		w.serve(clusters, "1", cluster("x"))
		sub := w.want(cds, "*")
		sleep(20 * time.Second)
		sub.Close(time.Now())
		w.group.Release(time.Now())
		sleep(2 * time.Minute)
		w.taken()
		sleep(10 * time.Minute)
		w.none("nobody is there")
		if n := len(w.up.Status().Lanes); n != 0 {
			t.Errorf("%d lanes", n)
		}
	})
}
