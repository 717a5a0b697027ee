package world_test

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResourcesHaveTheSizeAndOneStamp(t *testing.T) {
	for _, kind := range []world.Kind{world.Clusters, world.Endpoints} {
		for _, size := range []int{1, 150, 436, 5000} {
			w, err := world.New(world.Options{Kind: kind, Resources: 7, Bytes: size})
			if err != nil {
				t.Fatal(err)
			}
			const s = world.Stamp(0x123456789abcdef0)
			b := w.Encode(6, s)
			if size >= 150 && (len(b) < size-45 || len(b) > size+4) {
				t.Errorf("%s of about %d bytes has %d", kind, size, len(b))
			}
			got, at, ok := world.Find(b)
			if !ok || got != s {
				t.Errorf("%s: the stamp found is %x, %v, not %x", kind, got, ok, s)
			}
			if got, ok := world.At(b, at); !ok || got != s {
				t.Errorf("%s: found at %d, and yet there is none", kind, at)
			}
			if _, ok := world.At(b, at+1); ok {
				t.Errorf("%s: there is one at %d, too", kind, at+1)
			}
			if n := bytes.Count(b, []byte("weirload:")); n != 1 {
				t.Errorf("%s: %d stamps, not 1", kind, n)
			}
			m := w.Message(6, s).ProtoReflect().New().Interface()
			if err := proto.Unmarshal(b, m); err != nil || !proto.Equal(m, w.Message(6, s)) {
				t.Errorf("%s: decoded it is another: %v", kind, err)
			}
		}
	}
}

func TestIndexIsTheInverseOfName(t *testing.T) {
	w, err := world.New(world.Options{Kind: world.Clusters, Resources: 1_000_000, Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 10, 999_999} {
		if got, ok := w.Index(world.Name(i)); !ok || got != i {
			t.Errorf("%s is %d, %v", world.Name(i), got, ok)
		}
	}
	for _, name := range []string{"", "cluster-", "cluster-1", "cluster-0000001", "cluster-1000000", "cluster-00000x", "x-000001", "000001"} {
		if got, ok := w.Index(name); ok {
			t.Errorf("%q is no name, and yet is %d", name, got)
		}
	}
}

func TestFindPassesOverWhatOnlyLooksLikeOne(t *testing.T) {
	if s, at, ok := world.Find([]byte("weirload:000000000000000g weirload:00000000000000ff")); !ok || s != 255 || at != 26 {
		t.Errorf("found %v at %d, %v", s, at, ok)
	}
	if _, _, ok := world.Find([]byte("weirload:00000000000000f")); ok {
		t.Error("fifteen digits were taken for a stamp")
	}
}

func TestBounds(t *testing.T) {
	good := world.Options{Kind: world.Clusters, Resources: 1, Bytes: 1}
	for field, spoil := range map[string]func(*world.Options){
		"type":      func(o *world.Options) { o.Kind = "lds" },
		"resources": func(o *world.Options) { o.Resources = world.MaxResources + 1 },
		"bytes":     func(o *world.Options) { o.Bytes = 0 },
	} {
		o := good
		spoil(&o)
		if _, err := world.New(o); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
	if _, err := world.New(world.Options{Kind: world.Clusters, Resources: world.MaxResources, Bytes: world.MaxBytes}); err == nil {
		t.Error("a terabyte was accepted")
	}
}

// recorder is a plane that remembers what it was told.
type recorder struct {
	world.Counter
	mu      sync.Mutex
	changes [][]int
	stamps  []world.Stamp
}

func (r *recorder) Change(indices []int, s world.Stamp) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes, r.stamps = append(r.changes, indices), append(r.stamps, s)
	return nil
}

func TestControl(t *testing.T) {
	w, err := world.New(world.Options{Kind: world.Clusters, Resources: 3, Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	plane := &recorder{}
	plane.Requests.Store(7)
	server := httptest.NewServer(world.Control(w, plane))
	defer server.Close()
	c := &world.Client{Addr: strings.TrimPrefix(server.URL, "http://"), HTTP: server.Client()}

	before := world.Now()
	s, names, err := c.Change(t.Context(), 2)
	if err != nil || len(names) != 2 || names[1] != world.Name(1) || s < before || s > world.Now() || s != plane.stamps[0] {
		t.Errorf("the change of %v has the stamp %v, the plane was told %v: %v", names, s, plane.stamps, err)
	}
	if _, _, err := c.Change(t.Context(), 2); err != nil {
		t.Error(err)
	}
	if got := plane.changes; len(got) != 2 || got[0][0] != 0 || got[0][1] != 1 || got[1][0] != 2 || got[1][1] != 0 {
		t.Errorf("changed were %v, not in turn", got)
	}
	if counts, err := c.Counts(t.Context()); err != nil || counts.Requests != 7 {
		t.Errorf("counts: %+v, %v", counts, err)
	}
	churned, err := c.Churn(t.Context(), 200, 100*time.Millisecond)
	if err != nil || churned.Changes != 20 || churned.Seconds < 0.09 {
		t.Errorf("churn: %+v, %v", churned, err)
	}
	if len(plane.changes) != 22 {
		t.Errorf("the plane was told of %d changes, not 22", len(plane.changes))
	}
	if _, _, err := c.Change(t.Context(), 4); err == nil || !strings.Contains(err.Error(), "count") {
		t.Errorf("more changes than resources: %v", err)
	}
	if _, err := c.Churn(t.Context(), 1, time.Hour); err == nil {
		t.Error("a churn of an hour was accepted")
	}
}
