package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
)

// audited is a config that audits every hour, and what it counts.
func audited() (*prometheus.Registry, func(*Config)) {
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	return reg, func(c *Config) { c.Audit, c.Metrics = time.Hour, m }
}

// counted are the counters of audits that are not 0.
func counted(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "weir_")
		if name != "audits_total" && name != "drift_resources_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "origin" {
					labels = append(labels, l.GetValue())
				}
			}
			if v := m.GetCounter().GetValue(); v > 0 {
				all[strings.TrimSuffix(name, "_total")+" "+strings.Join(labels, " ")] = int(v)
			}
		}
	}
	return all
}

func wantCounted(t *testing.T, reg *prometheus.Registry, want map[string]int) {
	t.Helper()
	if got := counted(t, reg); !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}

// TestAuditFindsDrift: what differs from what the origin says on a fresh stream is counted, named
// and told anew; until then, and for whatever the new stream has not said, the table holds what it
// held.
func TestAuditFindsDrift(t *testing.T) {
	both := func(t *testing.T, sotw bool) {
		reg, config := audited()
		in(t, options{sotw: sotw, config: config}, func(w *world) {
			w.want(cds, "*")
			s := w.origin.ExpectStream("the lane's stream")
			s.ExpectType(cds, "asks")
			s.ExpectACK(cds, s.Respond(cds, "1", cluster("same", 1), cluster("changed", 1), cluster("extra", 1)), "and accepts")
			time.Sleep(30 * time.Minute)
			w.origin.Skip()
			w.origin.Await(time.Hour, func() bool { return len(w.origin.Streams()) == 2 && len(w.origin.Streams()[1].Requests()) == 1 }, "a stream of the audit")
			now := []relaytest.Resource{cluster("same", 1), cluster("changed", 2), cluster("missing", 1)}
			x := w.origin.Streams()[1]
			if r := x.Requests()[0]; len(r.Delta.GetInitialResourceVersions()) > 0 || r.SotW.GetVersionInfo() != "" || len(r.Names()) > 0 {
				t.Errorf("it says what is held: %v", r)
			}
			nonce := x.Respond(cds, "9", now...)
			w.origin.Await(0, func() bool { return len(x.Requests()) == 2 && x.Requests()[1].IsACK() }, "it is answered "+nonce)
			time.Sleep(4 * time.Second)
			w.wantHeld(cds, "the audit changes nothing", "*changed", "*extra", "*same")
			w.origin.Await(20*time.Second, func() bool { return len(w.origin.Streams()) == 3 }, "the lane is opened anew")
			w.origin.Await(time.Second, func() bool { return x.Err() != nil }, "the audit's stream is closed")
			before := w.raw(cds, "changed")
			s = w.origin.Streams()[2]
			w.origin.Await(0, func() bool { return len(s.Requests()) == 1 }, "and asks")
			if n := len(s.Requests()[0].Delta.GetInitialResourceVersions()); n > 0 {
				t.Errorf("it presents %d versions", n)
			}
			w.wantHeld(cds, "what is held stays", "*changed", "*extra", "*same")
			s.Respond(cds, "9", now...)
			time.Sleep(time.Second)
			if slices.Equal(before, w.raw(cds, "changed")) {
				t.Error("what has changed is not told")
			}
			time.Sleep(4 * time.Second)
			w.wantHeld(cds, "and now it is as the origin says", "*changed", "*missing", "*same")
			wantCounted(t, reg, map[string]int{
				"audits drift": 1, "drift_resources changed cds": 1, "drift_resources missing cds": 1, "drift_resources extra cds": 1,
			})
			lines := w.lines("differs from the origin's answer")
			if len(lines) != 1 || fmt.Sprint(lines[0].ContextMap()["names"]) != "[changed (changed) extra (extra) missing (missing)]" {
				t.Errorf("the log says %v", lines)
			}
		})
	}
	t.Run("delta", func(t *testing.T) { both(t, false) })
	t.Run("sotw", func(t *testing.T) { both(t, true) })
}

// TestAuditOfWhatIsTheSame: a day of audits opens nothing anew, names, globs and sets alike.
func TestAuditOfWhatIsTheSame(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		reg, config := audited()
		in(t, options{sotw: sotw, config: config, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
			glob := "xdstp://a/" + strings.TrimPrefix(opaque, "type.googleapis.com/") + "/g/"
			for i := range 50 {
				w.origin.Put(opaque, res(fmt.Sprint("n", i), "1"))
				w.origin.Put(opaque, res(glob+fmt.Sprint(i), "1"))
				w.origin.Set(cds, fmt.Sprint("c", i), "1", relaytest.Cluster(fmt.Sprint("c", i), time.Second))
			}
			w.want(cds, "*")
			w.want(cds, "c1", "none")
			w.want(opaque, "n1", "n2", "none")
			if !sotw {
				w.want(opaque, glob+"*")
			}
			time.Sleep(24 * time.Hour)
			got := counted(t, reg)
			if n := got["audits clean"]; n < 60 || n > 80 {
				t.Errorf("%d audits in a day were clean, want 3 an hour", n)
			}
			if len(got) > 1 {
				t.Errorf("counted are %v", got)
			}
			// a third is that of an audit under way
			if open := w.origin.Open(); len(open) < 2 || open[1].N != 2 {
				t.Errorf("%d streams are open, want the two lanes' first, and not the %d that was opened second", len(open), open[len(open)-1].N)
			}
		})
	}
}

// asked reports whether there are n streams, and something was asked on the last.
func asked(w *world, n int) bool {
	streams := w.origin.Streams()
	return len(streams) == n && len(streams[n-1].Requests()) > 0
}

// TestAuditOfNames: what is held by name differs if the origin says otherwise, and not if it says
// nothing.
func TestAuditOfNames(t *testing.T) {
	reg, config := audited()
	in(t, options{config: config}, func(w *world) {
		w.want(opaque, "same", "silent", "changed", "gone", "new")
		s := w.origin.ExpectStream("the lane's stream")
		s.Expect("asks")
		s.Respond(opaque, "1", res("same", "1"), res("silent", "1"), res("changed", "1"), res("gone", "1"))
		s.RespondRemoved(opaque, "1", "new")
		w.origin.Await(2*time.Hour, func() bool { return asked(w, 2) }, "a stream of the audit")
		x := w.origin.Streams()[1]
		x.Respond(opaque, "1", res("same", "1"), res("changed", "2"), res("new", "1"))
		x.RespondRemoved(opaque, "1", "gone")
		w.origin.Await(time.Minute, func() bool { return asked(w, 3) }, "the lane is opened anew")
		s = w.origin.Streams()[2]
		s.Respond(opaque, "1", res("same", "1"), res("changed", "2"), res("new", "1"))
		s.RespondRemoved(opaque, "1", "gone")
		time.Sleep(5 * time.Second)
		w.wantHeld(opaque, "it is as the origin says, and what it is silent about stays", "changed", "new", "same", "silent")
		wantCounted(t, reg, map[string]int{
			"audits drift": 1, "drift_resources changed other": 1, "drift_resources missing other": 1, "drift_resources extra other": 1,
		})
	})
}

// TestAuditWaitsForWhatIsUnderWay: an update that one of the two streams has before the other is no
// drift.
func TestAuditWaitsForWhatIsUnderWay(t *testing.T) {
	reg, config := audited()
	in(t, options{config: config}, func(w *world) {
		w.want(cds, "*")
		s := w.origin.ExpectStream("the lane's stream")
		s.Expect("asks")
		s.Respond(cds, "1", cluster("a", 1), cluster("b", 1))
		w.origin.Await(2*time.Hour, func() bool { return len(w.origin.Streams()) == 2 }, "a stream of the audit")
		x := w.origin.Streams()[1]
		x.Respond(cds, "1", cluster("a", 2), cluster("b", 1))
		time.Sleep(5 * time.Second) // the first look has found a
		s.Respond(cds, "2", cluster("a", 2), cluster("b", 2))
		time.Sleep(time.Second)
		x.Respond(cds, "2", cluster("b", 3)) // and this one goes on changing
		time.Sleep(time.Minute)
		wantCounted(t, reg, map[string]int{"audits clean": 1})
		if n := len(w.origin.Open()); n != 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// TestAuditIsPostponed: an origin that is down, or slow to say what it holds, is not taken to hold
// nothing; one audit is under way at a time, and ends with the process.
func TestAuditIsPostponed(t *testing.T) {
	reg, config := audited()
	in(t, options{config: config, origin: relaytest.OriginConfig{Patience: time.Minute}}, func(w *world) {
		for i := range 10 {
			wantOf(w.groupOf(fmt.Sprint("cluster", i)), cds, "*")
		}
		for range 10 {
			s := w.origin.ExpectStream("a lane's stream")
			s.Expect("asks")
			s.Respond(cds, "1", cluster("a", 1))
		}
		begin := time.Now()
		for time.Since(begin) < 100*time.Minute {
			time.Sleep(10 * time.Second)
			if n := len(w.origin.Open()); n > 11 {
				t.Fatalf("%d streams are open, want the ten lanes' and one", n)
			}
		}
		wantCounted(t, reg, map[string]int{"audits postponed": 10})
		w.down()
		time.Sleep(5 * time.Hour)
		wantCounted(t, reg, map[string]int{"audits postponed": 10})
		if n := len(w.held(cds)); n != 10 {
			t.Errorf("%d resources are held, want 10", n)
		}
		w.origin.Skip()
		w.back()
		for range 10 {
			s := w.origin.ExpectStream("a lane's stream")
			s.Expect("asks")
			s.Respond(cds, "1", cluster("a", 1))
		}
		w.origin.Await(2*time.Hour, func() bool { return len(w.origin.Open()) == 11 }, "an audit is under way")
		begin = time.Now()
		w.stop()
		if d := time.Since(begin); d > time.Second {
			t.Errorf("it took %v to stop", d)
		}
	})
}

// TestAuditLeavesAFreezeAlone: what differs on purpose is no drift.
func TestAuditLeavesAFreezeAlone(t *testing.T) {
	reg, config := audited()
	in(t, options{config: config, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.want(cds, "*")
		time.Sleep(time.Minute)
		part := w.table.Origin("mesh")
		part.Freeze(time.Now())
		w.origin.Set(cds, "a", "2", relaytest.Cluster("a", time.Minute))
		time.Sleep(6 * time.Hour)
		if got := counted(t, reg); got["audits postponed"] < 4 || len(got) != 1 {
			t.Errorf("counted are %v, want audits postponed", got)
		}
		part.Unfreeze()
		time.Sleep(6 * time.Hour)
		if got := counted(t, reg); got["audits clean"] < 4 || len(got) != 2 {
			t.Errorf("after it counted are %v", got)
		}
	})
}

// TestSecretsAreNotAudited: nor anything else that is one client's alone.
func TestSecretsAreNotAudited(t *testing.T) {
	reg, config := audited()
	secrets := func(c *relay.Config) { c.Origins[0].Secrets = true }
	in(t, options{config: config, table: secrets, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		g, err := w.table.Origin("mesh").DedicatedFor(relaytest.Node("n", "alone"), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.origin.Set(relaytest.SecretType, "s", "1", relaytest.Opaque("s", "1"))
		w.origin.Put(opaque, res("a", "1"))
		wantOf(g, relaytest.SecretType, "s")
		wantOf(g, opaque, "a")
		wantOf(w.group, relaytest.SecretType, "s")
		time.Sleep(6 * time.Hour)
		wantCounted(t, reg, map[string]int{})
		if n := len(w.origin.Streams()); n != 2 {
			t.Errorf("the origin saw %d streams, want the lanes' two", n)
		}
	})
}

// TestDigestsCompare: what two tables hold has equal digests if and only if it is equal, whatever
// order it came in.
func TestDigestsCompare(t *testing.T) {
	digests := func(order ...relaytest.Resource) (set, names string) {
		in(t, options{}, func(w *world) {
			w.want(opaque, "*")
			w.want(opaque, "x")
			for range 2 {
				s := w.origin.ExpectStream("a lane's stream")
				if r := s.Expect("asks"); len(r.Names()) > 0 {
					s.Respond(opaque, "1", order[0])
					continue
				}
				for _, r := range order[1:] {
					s.Respond(opaque, "1", r)
				}
			}
			time.Sleep(time.Second)
			d := inspect.Status(w.table.Origin("mesh"))[0].Digests()[0]
			set, names = d.Set, d.Names
		})
		return set, names
	}
	a, b, x := res("a", "1"), res("b", "1"), res("x", "1")
	set, names := digests(x, a, b)
	if other, same := digests(x, b, a); other != set || same != names || set == "" || names == "" {
		t.Errorf("in another order the digests are %q and %q, not %q and %q", other, same, set, names)
	}
	if other, same := digests(x, a, res("b", "2")); other == set || same != names {
		t.Errorf("with another member the digests are %q and %q, with the first %q and %q", other, same, set, names)
	}
}
