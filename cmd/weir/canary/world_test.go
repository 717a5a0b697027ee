package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// world is one origin with one group, "k".
type world struct {
	*testing.T
	gates  *Gates
	stop   func()
	policy gate.Canary
	check  *Check
	logs   *observer.ObservedLogs
	counts map[string]int

	mu      sync.Mutex
	on      bool
	looks   int
	newest  string
	changed time.Time
	held    map[Tier]*relay.State
	members []downstream.Member
	paused  string
	history []string // what the rest were held at
}

// stateOf is a state with a Cluster "c" of some content, and one "other" that never changes.
func stateOf(content string) *relay.State {
	var members []*xds.Variant
	c, other, _ := strings.Cut(content, "+")
	for name, payload := range map[string]string{"c": c, "other": other} {
		from := &xds.Provenance{TypeURL: xds.ClusterType, Version: content}
		body, err := proto.Marshal(&anypb.Any{TypeUrl: xds.ClusterType, Value: []byte(payload)})
		if err != nil {
			panic(err)
		}
		r := &xds.Resource{Name: name, Any: body, PayloadType: []byte(xds.ClusterType), Payload: []byte(payload)}
		members = append(members, xds.NewVariant(from, r, content))
	}
	return &relay.State{Revision: 1, Types: []relay.TypeAt{{TypeURL: xds.ClusterType, Sets: []relay.SetAt{{Selector: "*", Members: members}}}}}
}

func contentOf(s *relay.State) string {
	if s == nil {
		return "-"
	}
	return s.Types[0].Sets[0].Members[0].From.Version
}

func newWorld(t *testing.T, edit ...func(*world)) *world {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	w := &world{
		T: t, policy: gate.Canary{Bake: time.Minute, Acks: 1, MaxHold: time.Hour}, on: true, newest: "a",
		held: map[Tier]*relay.State{}, counts: map[string]int{}, logs: logs,
	}
	for _, e := range edit {
		e(w)
	}
	w.gates = New(Config{
		Origins: func() []Origin {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.looks++
			if !w.on {
				return nil
			}
			return []Origin{{Name: "mesh", Policy: w.policy, Check: w.check, Groups: w}}
		},
		Count: func(_, result string) { w.counts[result]++ },
		Log:   zap.New(core),
	})
	w.run()
	return w
}

// run runs the gates until end.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.gates.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	}
}

// restart ends the gates, and starts others with what was remembered.
func (w *world) restart() {
	w.stop()
	memory := w.gates.Memory("mesh")
	w.gates = New(w.gates.cfg)
	for key, t := range memory {
		w.gates.Recall("mesh", key, t)
	}
	w.run()
}

func (w *world) locked(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
}

// says has the origin change what it says.
func (w *world) says(content string) {
	w.locked(func() { w.newest, w.changed = content, time.Now() })
}

// canaries are connected, all in sync or not.
func (w *world) canaries(inSync bool, ids ...string) {
	w.locked(func() {
		w.members = nil
		for i, id := range ids {
			w.members = append(w.members, downstream.Member{Stream: uint64(i + 1), NodeID: id, InSync: inSync})
		}
	})
}

// rejects has a canary reject a resource.
func (w *world) rejects(name string) {
	r := downstream.Refusal{Origin: "mesh", Group: "k-canary", TypeURL: xds.ClusterType, NodeID: "n1", Message: "no", At: time.Now(), Sent: time.Now()}
	if name != "" {
		r.Names = []string{name}
	}
	w.gates.Refused("k", &r)
}

// is waits, and compares what the canaries and the rest are held at, and the phase.
func (w *world) is(after time.Duration, canaries, rest, phase string) {
	w.Helper()
	time.Sleep(after)
	synctest.Wait()
	s := w.status()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, r := contentOf(w.held[Canaries]), contentOf(w.held[Rest]); c != canaries || r != rest || s.Phase != phase {
		w.Errorf("canaries have %s, the rest %s, in phase %s; want %s, %s, %s; log: %v", c, r, s.Phase, canaries, rest, phase, w.said())
	}
}

func (w *world) status() Status {
	w.Helper()
	all := w.gates.Look("mesh")
	if len(all) != 1 {
		w.Fatalf("%d groups", len(all))
	}
	return all[0]
}

func (w *world) said() (lines []string) {
	for _, e := range w.logs.All() {
		lines = append(lines, fmt.Sprint(e.Message, " ", e.ContextMap()))
	}
	return lines
}

// logged reports whether a line has all of some words.
func (w *world) logged(words ...string) bool {
	return slices.ContainsFunc(w.said(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

// Of Groups.

func (w *world) Keys() []string    { return []string{"k"} }
func (w *world) Known(string) bool { return true }
func (w *world) Forget(string)     {}

func (w *world) Waiting(_ string, t Tier) (n int, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if contentOf(w.held[t]) != w.newest {
		n = 1
	}
	return n, w.changed
}

func (w *world) Capture(string) (*relay.State, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return stateOf(w.newest), true
}

func (w *world) Tried(_ string, at *relay.State) *relay.State { return at }

func (w *world) Hold(_ time.Time, _ string, t Tier, at *relay.State) relay.Held {
	w.mu.Lock()
	defer w.mu.Unlock()
	if contentOf(w.held[t]) != contentOf(at) {
		for i := range w.members {
			w.members[i].InSync = w.members[i].InSync && t == Rest
		}
		if t == Rest {
			w.history = append(w.history, contentOf(at))
		}
	}
	w.held[t] = at
	return relay.Held{Changed: 1}
}

func (w *world) Held(_ string, t Tier) *relay.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[t]
}

func (w *world) ID(s *relay.State) string    { return contentOf(s) }
func (w *world) Same(a, b *relay.State) bool { return contentOf(a) == contentOf(b) }

func (w *world) Paused(string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
}

func (w *world) Canaries([]string) map[string][]downstream.Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string][]downstream.Member{"k": slices.Clone(w.members)}
}

// answers is a check that answers what the function says, after a while.
func answers(answer func() (bool, string, error)) *Check {
	return &Check{
		Ask: func(context.Context) (bool, string, error) {
			time.Sleep(100 * time.Millisecond)
			return answer()
		},
		Interval: 10 * time.Second,
	}
}

var errAway = errors.New("away")

func member(stream uint64, id string, inSync bool) downstream.Member {
	return downstream.Member{Stream: stream, NodeID: id, InSync: inSync}
}
