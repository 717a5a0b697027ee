package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// of are the proxies of a group.
func (r *rolling) of(group string) (all []*proxy) {
	for i, p := range r.proxies {
		if i%2 == map[string]int{"edge": 0, "core": 1}[group] {
			all = append(all, p)
		}
	}
	return all
}

func atAll(all []*proxy, n int, sentence string) {
	for _, p := range all {
		p.at(n, sentence)
	}
}

// TestRollbackOfOneGroup: one group goes back, also if all its clients leave and come again, and the
// others go on.
func TestRollbackOfOneGroup(t *testing.T) {
	r := startRolling(t, relaytest.Delta, "linger: 50ms, retired: { entries: 0, bytes: 0 }")
	key := r.keyOf("edge")
	if code, stdout, _ := weir(t, "__complete", "rollback", "mesh", "--admin", r.admin.listener.Addr().String(), "--group", ""); code != exitOK || !strings.Contains(stdout, admin.ShortKey(key)+"\t") {
		t.Errorf("completion: %d, %q", code, stdout)
	}
	said := r.says(exitOK, "", "rollback", "mesh", "--group", key[:admin.KeyDigits], "--to", moment(r.began[1]), "-o", "json")
	for _, part := range []string{`"group": "` + key + `"`, `"changed": 4`, `"state": "`} {
		if !strings.Contains(said, part) {
			t.Errorf("no %s in\n%s", part, said)
		}
	}
	atAll(r.of("edge"), 1, "back")
	push(r.origin, 4)
	atAll(r.of("core"), 4, "the other group goes on")
	if b := r.mesh().Rollback; b == nil || b.Whole || len(b.Groups) != 1 || b.Groups[0].Group != key || !r.mesh().Frozen.IsZero() {
		t.Errorf("/origins has %+v", b)
	}
	r.says(exitOK, "1 group rolled back to ", "status")
	r.says(exitOK, "mesh is frozen", "freeze", "mesh")
	r.says(exitOK, "unfroze mesh", "unfreeze", "mesh")
	for _, p := range r.of("edge") {
		p.Close()
	}
	await(t, "the group ends", func() bool { return len(r.table.Origin("mesh").Groups()) == 1 })
	p := openProxy(t, r.running, relaytest.SotW, "edge")
	p.at(1, "it comes again")
	p.WantIdle(300 * time.Millisecond)
	p.at(1, "it stays")
	r.says(exitFailed, `mesh: no group "`+r.keyOf("core")+`" is rolled back`, "rollforward", "mesh", "--group", r.keyOf("core"))
	r.says(exitOK, "follows the origin again", "rollforward", "mesh", "--group", key)
	p.at(4, "forward")
	p.wantNoGap(t)
}

// TestOneGroupForward: of an origin that is rolled back as a whole one group may go on. The others
// stay, and the freeze is over.
func TestOneGroupForward(t *testing.T) {
	r := startRolling(t, relaytest.SotW, "")
	r.says(exitOK, "frozen, so that new groups keep", "rollback", "mesh", "--to", moment(r.began[2]))
	r.says(exitOK, "1 other group stays held", "rollforward", "mesh", "--group", r.keyOf("core"))
	atAll(r.of("core"), 3, "forward")
	atAll(r.of("edge"), 2, "and not the others")
	if o := r.mesh(); o.Rollback == nil || o.Rollback.Whole || len(o.Rollback.Groups) != 1 || !o.Frozen.IsZero() {
		t.Errorf("/origins has %+v", o.Rollback)
	}
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.at(3, "all are forward")
}

// TestRollbackRefused: what cannot be done is refused with the reason, and then nothing has changed.
func TestRollbackRefused(t *testing.T) {
	r := startRolling(t, relaytest.Delta, "history: { versions: 2 }")
	late := openProxy(t, r.running, relaytest.Delta, "late")
	late.at(3, "a group that comes later")
	refused := func(code int, want string, args ...string) {
		t.Helper()
		r.says(code, want, append([]string{"rollback"}, args...)...)
	}
	refused(exitUsage, `weir rollback: --to is missing`, "mesh")
	refused(exitUsage, "--to -5m is in the future", "mesh", "--to", "-5m")
	refused(exitFailed, `there is no origin "nobody"; the only one is `, "nobody", "--to", "1m")
	refused(exitFailed, `mesh has no group "5aee26ffff"`, "mesh", "--to", "1m", "--group", "5aee26ffff")
	for _, to := range []string{"yesterday", "abc"} { // said once, not for each group
		if _, _, said := weir(t, "rollback", "mesh", "--to", to, "--admin", r.admin.listener.Addr().String()); !strings.Contains(said, `mesh: "`+to+`" is no state: `) ||
			!strings.HasSuffix(said, "; weir history mesh --states lists the states\n") || strings.Count(said, "\n") != 1 {
			t.Errorf("it is refused by\n%s", said)
		}
	}
	refused(exitFailed, "is at state ", "mesh", "--to", moment(time.Now()))
	second := r.stateOf("edge", 2)
	code, stdout, stderr := weir(t, "rollback", "mesh", "--to", second, "--admin", r.admin.listener.Addr().String())
	if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "mesh: group "+admin.ShortKey(r.keyOf("late"))+": no state with the ID ") ||
		!strings.HasSuffix(stderr, "; weir history mesh --states lists the states\n") {
		t.Errorf("a state that one group never had: %d, %q, %q", code, stdout, stderr)
	}
	if o := r.mesh(); o.Rollback != nil || !o.Frozen.IsZero() {
		t.Errorf("/origins has %+v, frozen %v", o.Rollback, o.Frozen)
	}
	push(r.origin, 4)
	r.at(4, "nothing is held")
	late.at(4, "nor of that group")
	refused(exitFailed, "the oldest state that is known whole is of revision", "mesh", "--group", r.keyOf("edge"), "--to", moment(r.began[1]))
	said := r.says(exitOK, "keeps its current configuration: no state with the ID "+second, "rollback", "mesh", "--to", second, "--partial")
	if strings.Count(said, ": held at state "+second[:12]) != 2 {
		t.Errorf("it says\n%s", said)
	}
	r.at(2, "those that can are back")
	late.at(4, "the other one stays")
	push(r.origin, 5)
	late.WantIdle(300 * time.Millisecond)
	late.at(4, "and is held, too")
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.at(5, "forward")
	late.at(5, "all of them")
}

// stateOf is the ID of the state that a group had when all were at the origin's state of a number.
func (r *rolling) stateOf(group string, n int) string {
	r.t.Helper()
	part, key := r.table.Origin("mesh"), r.keyOf(group)
	row, err := part.ResolveState(key, moment(r.began[n]), time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	state, _ := part.StateAt(key, row.Revision)
	return state.ID(part)
}

// TestRollbackToLastGood: the newest good state before the present one is one that all clients of the
// group had accepted and that was in force for a while. From there it is the one before, and so on.
func TestRollbackToLastGood(t *testing.T) {
	judged := atomic.Bool{} // no other state is, however long it takes to come to the next
	r := startRolling(t, relaytest.Delta, "", func(p *process) {
		p.goods.bake = func(string) time.Duration {
			if judged.Load() {
				return time.Second
			}
			return time.Hour
		}
	})
	key := r.keyOf("edge")
	part := r.table.Origin("mesh")
	good := func() {
		t.Helper()
		judged.Store(true)
		await(t, "the state is good", func() bool { return !part.States(key, 1)[0].Good.IsZero() })
		judged.Store(false)
	}
	good()
	push(r.origin, 4)
	r.at(4, "pushed")
	good()
	push(r.origin, 5)
	r.at(5, "a bad one")
	back := func(code int, want string) {
		t.Helper()
		r.says(code, want, "rollback", "mesh", "--group", key, "--to", "last-good")
	}
	back(exitOK, "held at state ")
	atAll(r.of("edge"), 4, "back")
	back(exitOK, "held at state ")
	atAll(r.of("edge"), 3, "farther back")
	back(exitFailed, "no state before the one that it is held at was seen good")
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.at(5, "forward")
}

// TestRollbackOutlivesTheProcess: after a restart clients stay at what they were taken back to, until
// an operator has them go forward.
func TestRollbackOutlivesTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	r := startRolling(t, relaytest.Delta, fmt.Sprintf("snapshot: { path: %q, interval: 100ms }", dir))
	r.says(exitOK, "held at", "rollback", "mesh", "--to", moment(r.began[2]))
	r.at(2, "back")
	saved := func() {
		t.Helper()
		await(t, "the orders are on disk", func() bool {
			c, err := snapshot.Read(snapshot.File(dir), nil)
			return err == nil && slices.EqualFunc(c.Summary(false).Origins[0].Rollbacks, r.rollbacks.kept("mesh"), func(x, y snapshot.Order) bool {
				return x.Group == y.Group && x.Changed.Equal(y.Changed)
			}) && wholeOnDisk(t, dir)
		})
		r.end()
	}
	restart := func() {
		r.running = startWeir(t, r.config)
		r.proxies = nil
		for _, group := range []string{"edge", "core"} {
			r.proxies = append(r.proxies, openProxy(t, r.running, relaytest.Delta, group))
		}
	}
	was := r.mesh().Rollback
	saved()
	push(r.origin, 4)
	restart()
	r.at(2, "after the restart")
	await(t, "what the origin has waits", func() bool { return r.mesh().Rollback.Waiting >= 4 })
	r.proxies[0].WantIdle(300 * time.Millisecond)
	r.at(2, "it stays")
	if is := r.mesh().Rollback; !is.Since.Equal(was.Since) || is.By != was.By || is.To != was.To || len(is.Groups) != 2 || is.Groups[0].State != was.Groups[0].State {
		t.Errorf("/origins has %+v, and had %+v", is, was)
	}
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.at(4, "forward")
	saved()
	restart()
	r.at(4, "after another restart")
	if o := r.mesh(); o.Rollback != nil || !o.Frozen.IsZero() {
		t.Errorf("it is rolled back again: %+v, frozen %v", o.Rollback, o.Frozen)
	}
}

// TestRollbackIsJoined: a replica that starts with what a sibling has stays at what that was taken
// back to. One that was rolled forward while this one was down does not.
func TestRollbackIsJoined(t *testing.T) {
	r := startRolling(t, relaytest.Delta, "seed: { "+answers+" }")
	r.says(exitOK, "held at", "rollback", "mesh", "--to", moment(r.began[1]))
	r.at(1, "back")
	dir := filepath.Join(t.TempDir(), "kept")
	config := freePorts + rollingConfig(r.origin, relaytest.Delta, fmt.Sprintf("seed: { %s }, snapshot: { path: %q, interval: 100ms }", asks(r.seedAddress()), dir))
	next := startWeir(t, config).up()
	p := openProxy(t, next, relaytest.Delta, "edge")
	p.at(1, "the replica that joins")
	p.WantIdle(300 * time.Millisecond)
	p.at(1, "it stays")
	if b := next.mesh().Rollback; b == nil || b.To != moment(r.began[1]) || !b.Whole {
		t.Errorf("/origins has %+v", b)
	}
	next.says(exitFailed, "is rolled back, and frozen with that", "unfreeze", "mesh")
	await(t, "it is on disk", func() bool {
		c, err := snapshot.Read(snapshot.File(dir), nil)
		return err == nil && len(c.Summary(false).Origins[0].Rollbacks) == 1 && wholeOnDisk(t, dir)
	})
	next.end()
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	next = startWeir(t, config).up()
	if o := next.mesh(); o.Rollback != nil || !o.Frozen.IsZero() {
		t.Errorf("it is rolled back still: %+v, frozen %v", o.Rollback, o.Frozen)
	}
	openProxy(t, next, relaytest.Delta, "edge").at(3, "it goes on")
}

// TestRollbackOfAllReplicas: one command takes all replicas back, to the same moment, and says of
// each group of each what came of it.
func TestRollbackOfAllReplicas(t *testing.T) {
	const name = "weir-headless.test"
	ips := []string{"127.0.0.1", "127.0.0.2"}
	nameServer(t, map[string][]net.IP{name + ".": {net.ParseIP(ips[0]), net.ParseIP(ips[1])}})
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	replicas, port := []*rolling{}, "0"
	for _, ip := range ips {
		w := startWeir(t, fmt.Sprintf("ready: { types: [] }\nlisteners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"%s:%s\" }\n%s", ip, port, rollingConfig(origin, relaytest.Delta, "")))
		_, port, _ = net.SplitHostPort(w.admin.listener.Addr().String())
		replicas = append(replicas, &rolling{running: w, origin: origin})
	}
	for _, r := range replicas {
		r.push(t)
	}
	order := func(code int, args ...string) (lines []string) {
		t.Helper()
		got, stdout, stderr := weir(t, append(args, "--all", "dns:///"+name+":"+port)...)
		if got != code {
			t.Fatalf("%v: %d\n%s%s", args, got, stdout, stderr)
		}
		return strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	}
	order(exitUsage, "rollback", "mesh", "--to", "12")
	lines := order(exitOK, "rollback", "mesh", "--to", moment(replicas[1].began[2]))
	if len(lines) != 6 || !strings.HasPrefix(lines[0], ips[0]+":"+port+": mesh: group ") || !strings.HasPrefix(lines[5], ips[1]+":"+port+": mesh: frozen") {
		t.Errorf("it says\n%s", strings.Join(lines, "\n"))
	}
	for _, r := range replicas {
		r.at(2, "each replica is back")
	}
	a, b := replicas[0].mesh().Rollback.Groups, replicas[1].mesh().Rollback.Groups
	if a[0].State != b[0].State || a[1].State != b[1].State || a[0].State == "" {
		t.Errorf("the replicas have %+v and %+v", a, b)
	}
	order(exitOK, "rollforward", "mesh")
	for _, r := range replicas {
		r.at(3, "each replica is forward")
	}
}

// TestReloadRolledBack: an origin that is rolled back stays so, and what would drop what its groups
// are held at is refused.
func TestReloadRolledBack(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	config := freePorts + rollingConfig(origin, relaytest.Delta, "")
	w := startReloading(t, config)
	r := &rolling{running: w.running, origin: origin}
	r.push(t)
	r.says(exitOK, "held at", "rollback", "mesh", "--group", r.keyOf("edge"), "--to", moment(r.began[1]))
	atAll(r.of("edge"), 1, "back")
	if s := w.again(strings.Replace(config, "group_by: [cluster]", "group_by: [cluster, id]", 1)); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], `origin "mesh" is rolled back, and this would drop the resources that its clients are kept at: roll it forward first`) {
		t.Errorf("%+v", s)
	}
	if s := w.again(strings.Replace(config, "bake: 1s", "bake: 1s, share: 0.5", 1)); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "roll it forward first") {
		t.Errorf("other groups: %+v", s)
	}
	w.applied(strings.Replace(config, "settle: 20ms", "settle: 30ms", 1))
	w.applied(strings.Replace(config, "dialect: delta", "dialect: delta, headers: { a: b }", 1))
	push(r.origin, 4)
	atAll(r.of("core"), 4, "the others go on")
	atAll(r.of("edge"), 1, "it stays")
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	atAll(r.of("edge"), 4, "forward")
	w.applied(strings.Replace(config, "group_by: [cluster]", "group_by: [cluster, id]", 1))
}

// TestOrderInForce: the last order counts, whether it is for a group or for all of them, wherever it
// was given; at the same time, the one that keeps clients back.
func TestOrderInForce(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	back := func(group string, hour int) snapshot.Order {
		return snapshot.Order{Group: group, Since: at(hour), Changed: at(hour)}
	}
	forward := func(group string, hour int) snapshot.Order { return snapshot.Order{Group: group, Changed: at(hour)} }
	for name, row := range map[string]struct {
		orders []snapshot.Order
		want   snapshot.Order // for group a
	}{
		"none":                            {nil, snapshot.Order{}},
		"of the group":                    {[]snapshot.Order{back("a", 1)}, back("a", 1)},
		"of another one":                  {[]snapshot.Order{back("b", 1)}, snapshot.Order{}},
		"of all":                          {[]snapshot.Order{back("", 1)}, back("", 1)},
		"the group goes on":               {[]snapshot.Order{back("", 1), forward("a", 2)}, forward("a", 2)},
		"then all go back":                {[]snapshot.Order{forward("a", 2), back("", 3), back("", 1)}, back("", 3)},
		"all go on":                       {[]snapshot.Order{back("a", 1), forward("", 2)}, forward("", 2)},
		"a sibling missed that it went":   {[]snapshot.Order{back("a", 1), forward("a", 2), back("a", 1)}, forward("a", 2)},
		"at the same time, for the group": {[]snapshot.Order{forward("", 2), back("a", 2)}, back("a", 2)},
		"at the same time, of two":        {[]snapshot.Order{forward("a", 2), back("a", 2), forward("a", 2)}, back("a", 2)},
	} {
		o := rolledOrigin{orders: map[string]snapshot.Order{}}
		for _, x := range row.orders {
			o.orders[x.Group] = later(o.orders[x.Group], x)
		}
		if got := o.order("a"); got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}
