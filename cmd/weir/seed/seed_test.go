package seed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestTaken: a sibling's state is what its table has, in plain text and sealed.
func TestTaken(t *testing.T) {
	s := newSibling(t, 1000, 0)
	found, _ := newSearch(t, nil, s).run(patience)
	if n := resourcesOf(t, found); n != 1000 || found.From != "sibling "+s.address() {
		t.Errorf("%d resources of %q", n, found.From)
	}
	keys := readKeys(t, strings.Repeat("0a", 32))
	s = newSibling(t, 1000, 0, func(s *sibling) { s.keys, s.head.Key = keys, keys.ID() })
	search := newSearch(t, func(c *Config) { c.Keys = keys }, s)
	found, _ = search.run(patience)
	if n := resourcesOf(t, found); n != 1000 || found.Content.Report.Key != keys.ID() {
		t.Errorf("%d resources, sealed with %q\n%s", n, found.Content.Report.Key, search.lines())
	}
	for _, other := range []*snapshot.Keys{nil, readKeys(t, strings.Repeat("0b", 32))} {
		search := newSearch(t, func(c *Config) { c.Keys = other }, s)
		if found, _ = search.run(patience); found.Content != nil || !search.said("sealed with the key "+keys.ID()) {
			t.Errorf("without the key: %q\n%s", found.From, search.lines())
		}
	}
	if n := s.states(); n != 1 {
		t.Errorf("the sealed state was asked for %d times, want once: who has no key asks for none", n)
	}
}

func readKeys(t *testing.T, text string) *snapshot.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, _, err := snapshot.ReadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// answer replaces what is sent on a path.
func answer(path string, with func(w http.ResponseWriter)) func(*sibling) {
	return func(s *sibling) {
		s.change = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			with(w)
			return true
		}
	}
}

// state sends bytes as a state, with their checksum.
func state(w http.ResponseWriter, b []byte) {
	w.Header().Set("Trailer", checksum)
	_, _ = w.Write(b)
	sum := sha256.Sum256(b)
	w.Header().Set(checksum, hex.EncodeToString(sum[:]))
}

// altered sends the sibling's own state, changed.
func altered(change func(s *sibling, b []byte) []byte) func(*sibling) {
	return func(s *sibling) {
		answer(statePath, func(w http.ResponseWriter) {
			var b bytes.Buffer
			if err := s.capture(s.head.Deployment, time.Now()).Write(&b); err != nil {
				panic(err)
			}
			state(w, change(s, b.Bytes()))
		})(s)
	}
}

func written(s *snapshot.State) []byte {
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// TestLies: whatever a sibling makes up is noticed, said, and not used; the next one is.
func TestLies(t *testing.T) {
	good := newSibling(t, 10, time.Hour)
	for what, row := range map[string]struct {
		edit func(*sibling)
		said string
	}{
		"a flipped byte": {func(s *sibling) {
			answer(statePath, func(w http.ResponseWriter) {
				b := written(s.capture("weir", time.Now()))
				sum := sha256.Sum256(b)
				b[len(b)/2] ^= 1
				w.Header().Set("Trailer", checksum)
				_, _ = w.Write(b)
				w.Header().Set(checksum, hex.EncodeToString(sum[:]))
			})(s)
		}, "checksum differs"},
		"a flipped byte, summed up": {altered(func(_ *sibling, b []byte) []byte { b[len(b)/2] ^= 1; return b }), "it is damaged"},
		"a state that is cut":       {altered(func(_ *sibling, b []byte) []byte { return b[:len(b)/2] }), "it is damaged"},
		"no end": {answer(statePath, func(w http.ResponseWriter) {
			_, _ = w.Write(make([]byte, 100_000))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}), "unexpected EOF"},
		"no checksum": {func(s *sibling) {
			answer(statePath, func(w http.ResponseWriter) { _, _ = w.Write(written(s.capture("weir", time.Now()))) })(s)
		}, errShort.Error()},
		"no snapshot":             {altered(func(_ *sibling, _ []byte) []byte { return []byte("hello") }), "no header"},
		"nothing":                 {altered(func(_ *sibling, _ []byte) []byte { return nil }), "it is empty"},
		"too much":                {altered(func(_ *sibling, b []byte) []byte { return append(b, make([]byte, 1<<20)...) }), "it has more than 1048576 bytes"},
		"another deployment":      {func(s *sibling) { s.head.Deployment = "other" }, `it is of the deployment "other", and this is "weir"`},
		"another one in the file": {altered(func(s *sibling, _ []byte) []byte { return written(s.capture("other", time.Now())) }), `it is of the deployment "other", and this is "weir"`},
		"the future":              {func(s *sibling) { s.head.Origins[0].Vouched = time.Now().Add(time.Hour) }, "is in the future"},
		"frozen in the future":    {func(s *sibling) { s.head.Origins[0].Frozen = time.Now().Add(time.Hour) }, "is in the future"},
		"rolled back in the future": {func(s *sibling) {
			s.head.Origins[0].Rollbacks = []snapshot.Order{{To: "ab12cd", Changed: time.Now().Add(time.Hour)}}
		}, "is in the future"},
		"a gate in the future": {func(s *sibling) {
			s.head.Origins[0].Gates = []snapshot.GateMemory{{Group: "g", Since: time.Now().Add(time.Hour)}}
		}, "is in the future"},
		"the future in the file": {altered(func(s *sibling, _ []byte) []byte { return written(s.capture("weir", time.Now().Add(time.Hour))) }), "is in the future"},
		"another version":        {func(s *sibling) { s.head.Format = 9 }, "it is of another version: its format is 9, and this build reads 1"},
		"another version in the file": {altered(func(_ *sibling, b []byte) []byte {
			b[8] = 9
			return b[:200]
		}), "format version 9 is not 1"},
		"no head":          {answer(headPath, func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }), "its head cannot be read"},
		"somebody else":    {answer(headPath, func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) }), "cache.seed.listen"},
		"a head too large": {answer(headPath, func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxHead+1)) }), "its head has more than"},
		"a head in error":  {answer(headPath, func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }), "418"},
		"a way elsewhere": {answer(headPath, func(w http.ResponseWriter) {
			w.Header().Set("Location", good.URL+headPath)
			w.WriteHeader(http.StatusFound)
		}), "must not redirect"},
		"fewer than nothing": {func(s *sibling) { s.head.Origins[0].Resources = -1 }, "it says that it has -1 resources"},
	} {
		t.Run(what, func(t *testing.T) {
			liar := newSibling(t, 1000, 0, row.edit)
			search := newSearch(t, func(c *Config) { c.MaxBytes = 1 << 20 }, good, liar)
			found, took := search.run(patience)
			if n := resourcesOf(t, found); n != 10 || !search.said(row.said) || took > patience/2 {
				t.Errorf("%d resources of %q after %s, want 10, and %q said:\n%s", n, found.From, took, row.said, search.lines())
			}
		})
	}
}

// TestNextBest: the newest is asked first, of equally new ones the fullest, and the next one if that
// fails, in whatever way.
func TestNextBest(t *testing.T) {
	dies := func(s *sibling) {
		answer(statePath, func(w http.ResponseWriter) {
			_, _ = w.Write(written(s.capture("weir", time.Now()))[:1000])
			w.(http.Flusher).Flush()
			go s.CloseClientConnections()
			time.Sleep(10 * time.Millisecond)
			panic(http.ErrAbortHandler)
		})(s)
	}
	busy := answer(statePath, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	for what, row := range map[string]struct {
		siblings []*sibling
		want     int // clusters of the one that is taken
	}{
		"the newest":          {[]*sibling{newSibling(t, 30, time.Hour), newSibling(t, 10, 0), newSibling(t, 20, 2*time.Hour)}, 10},
		"the fullest":         {[]*sibling{newSibling(t, 10, 0), newSibling(t, 30, 30*time.Second), newSibling(t, 20, time.Second)}, 30},
		"not an empty one":    {[]*sibling{newSibling(t, 0, 0), newSibling(t, 5, time.Hour)}, 5},
		"the first one dies":  {[]*sibling{newSibling(t, 30, 0, dies), newSibling(t, 5, time.Hour)}, 5},
		"the first one busy":  {[]*sibling{newSibling(t, 30, 0, busy), newSibling(t, 5, time.Hour)}, 5},
		"two die, one is old": {[]*sibling{newSibling(t, 30, 0, dies), newSibling(t, 20, 0, dies), newSibling(t, 5, 24*time.Hour)}, 5},
	} {
		t.Run(what, func(t *testing.T) {
			search := newSearch(t, nil, row.siblings...)
			if found, _ := search.run(patience); resourcesOf(t, found) != row.want {
				t.Errorf("%q with %d resources, want %d:\n%s", found.From, resourcesOf(t, found), row.want, search.lines())
			}
		})
	}
}

// TestManyOrigins: what counts is the origin that was lost longest ago, and what is held of it.
func TestManyOrigins(t *testing.T) {
	now := time.Now()
	s := &Search{cfg: Config{Origins: []string{"a", "b"}}}
	head := func(a, b time.Duration, resources ...int) *Head {
		return &Head{Origins: []Origin{{Name: "a", Vouched: now.Add(-a), Resources: resources[0]}, {Name: "b", Vouched: now.Add(-b), Resources: resources[1]}}}
	}
	for _, row := range []struct {
		better, worse *Head
	}{
		{head(time.Hour, time.Hour, 1, 1), head(0, 0, 100, 0)},
		{head(0, time.Hour, 1, 1), head(2*time.Hour, 0, 9, 9)},
		{head(0, time.Hour, 5, 5), head(time.Second, time.Hour, 1, 1)},
		{head(0, time.Hour, 1, 1), head(5*time.Minute, time.Hour, 9, 9)},
	} {
		if s.compare(row.better, row.worse) <= 0 || s.compare(row.worse, row.better) >= 0 {
			t.Errorf("%+v is not better than %+v", row.better, row.worse)
		}
	}
}

// TestAllBusy: a sibling that is busy is asked again, as long as there is time.
func TestAllBusy(t *testing.T) {
	n := 0
	s := newSibling(t, 10, 0, func(s *sibling) {
		s.change = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == statePath {
				n++
			}
			if n == 1 || n == 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		}
	})
	if found, took := newSearch(t, nil, s).run(patience); resourcesOf(t, found) != 10 || n != 3 {
		t.Errorf("taken from %q after %s, asked %d times", found.From, took, n)
	}
}

// TestNobody: where it is clear that nobody has anything the search ends at once.
func TestNobody(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuses := closed.Addr().String()
	_ = closed.Close()
	empty := newSibling(t, 0, 0)
	starting := newSibling(t, 10, 0, func(s *sibling) { s.head.Origins = nil })
	self := newSibling(t, 10, 0, func(s *sibling) { s.head.Process = "me" })
	name := Peer{Address: "weir-headless:19082", Each: true}
	for what, edit := range map[string]func(*Config){
		"no peers":     func(*Config) {},
		"refused":      func(c *Config) { c.Peers = []Peer{{Address: refuses}} },
		"empty":        func(c *Config) { c.Peers = []Peer{{Address: empty.address()}} },
		"starting too": func(c *Config) { c.Peers = []Peer{{Address: starting.address()}} },
		"oneself":      func(c *Config) { c.Peers = []Peer{{Address: self.address()}} },
		"no such name": func(c *Config) {
			c.Peers = []Peer{name}
			c.Resolve = func(context.Context, string) ([]string, error) { return nil, &net.DNSError{IsNotFound: true} }
		},
		"no resolver": func(c *Config) {
			c.Peers = []Peer{name}
			c.Resolve = func(context.Context, string) ([]string, error) {
				return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
			}
		},
		"an empty file": func(c *Config) { c.File = write(t, nil) },
	} {
		t.Run(what, func(t *testing.T) {
			search := newSearch(t, edit)
			if found, took := search.run(patience); found.Content != nil || took > patience/6 {
				t.Errorf("%q after %s\n%s", found.From, took, search.lines())
			}
		})
	}
	if self.states()+starting.states()+empty.states() > 0 {
		t.Error("a state was asked for that is none, or one's own")
	}
}

// TestByName: all addresses of a name are siblings, each once.
func TestByName(t *testing.T) {
	a := newSibling(t, 10, 0)
	_, port, _ := net.SplitHostPort(a.address())
	search := newSearch(t, func(c *Config) {
		c.Peers = []Peer{{Address: "weir-headless:" + port, Each: true}, {Address: a.address()}}
		c.Resolve = func(_ context.Context, name string) ([]string, error) {
			if name != "weir-headless" {
				return nil, fmt.Errorf("what is %q?", name)
			}
			return []string{"127.0.0.1"}, nil
		}
	})
	if heads := search.Heads(t.Context()); len(heads) != 1 || heads[0].Address != a.address() {
		t.Errorf("answers %+v", heads)
	}
}

// stuck listens and says nothing.
func stuck(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestStuckSibling: one that does not answer costs no more than a moment if another one does, and
// one that stops to send no more than a part of the time. Alone they cost the time, and no more.
func TestStuckSibling(t *testing.T) {
	good := newSibling(t, 10, time.Hour)
	silent := stuck(t)
	search := newSearch(t, func(c *Config) { c.Peers = append(c.Peers, Peer{Address: silent}) }, good)
	if found, took := search.run(patience); resourcesOf(t, found) != 10 || took > patience/3 {
		t.Errorf("%q after %s:\n%s", found.From, took, search.lines())
	}
	halts := newSibling(t, 1000, 0, func(s *sibling) {
		s.change = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != statePath {
				return false
			}
			_, _ = w.Write(written(s.capture("weir", time.Now()))[:1000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
	})
	search = newSearch(t, nil, good, halts)
	const within = 8 * time.Second
	if found, took := search.run(within); resourcesOf(t, found) != 10 || !search.said(errSlow.Error()) {
		t.Errorf("%q after %s:\n%s", found.From, took, search.lines())
	}
	for _, address := range []string{silent, halts.address()} {
		search = newSearch(t, func(c *Config) { c.Peers = []Peer{{Address: address}} })
		if found, took := search.run(time.Second); found.Content != nil || took < time.Second/2 || took > 30*time.Second {
			t.Errorf("%q after %s:\n%s", found.From, took, search.lines())
		}
	}
}

// TestStuckJoiner: those that do not read what they asked for hold no slot for long, and others are
// told at once that it is busy.
func TestStuckJoiner(t *testing.T) {
	s := newSibling(t, 0, 0)
	s.table = newTable(t, 3000, strings.Repeat("x", 10_000)) // more than sockets take
	s.seed.within = time.Second
	var conns []net.Conn
	for range maxTransfers {
		c, err := net.Dial("tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", statePath); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	code := func() int {
		resp, err := http.Get(s.URL + statePath)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	deadline := time.Now().Add(patience)
	for code() != http.StatusServiceUnavailable {
		if time.Now().After(deadline) {
			t.Fatal("two that do not read are served, and a third one as well")
		}
	}
	for code() != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatalf("%d that do not read keep all others from being served", len(conns))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWaitsForDisk: a process that does not know yet what its disk has does not say that it has
// nothing.
func TestWaitsForDisk(t *testing.T) {
	s := newSibling(t, 10, 0, func(s *sibling) { s.opened = make(chan struct{}) })
	time.AfterFunc(100*time.Millisecond, func() { close(s.opened) })
	if found, _ := newSearch(t, nil, s).run(patience); resourcesOf(t, found) != 10 {
		t.Errorf("taken from %q", found.From)
	}
	s = newSibling(t, 10, 0, func(s *sibling) { s.opened = make(chan struct{}) })
	if found, took := newSearch(t, nil, s).run(time.Second / 5); found.Content != nil || took > patience/2 {
		t.Errorf("taken from %q after %s", found.From, took)
	}
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed.weir")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFile: a file is the second source. It is awaited, and what is wrong with it is said at once if
// waiting does not help.
func TestFile(t *testing.T) {
	s := newSibling(t, 10, time.Hour)
	whole := written(s.capture("weir", time.Now()))
	path := filepath.Join(t.TempDir(), "later")
	search := newSearch(t, func(c *Config) { c.File = path })
	time.AfterFunc(300*time.Millisecond, func() {
		_ = os.WriteFile(path, whole[:1000], 0o600) // it is being copied
		time.Sleep(200 * time.Millisecond)
		_ = os.WriteFile(path+".next", whole, 0o600)
		_ = os.Rename(path+".next", path)
	})
	if found, took := search.run(patience); resourcesOf(t, found) != 10 || found.From != "file "+path || took > patience/2 {
		t.Errorf("%q after %s\n%s", found.From, took, search.lines())
	}
	for said, b := range map[string][]byte{
		`it is of the deployment "other"`: written(s.capture("other", time.Now())),
		"is in the future":                written(s.capture("weir", time.Now().Add(time.Hour))),
		"format version 9":                append(append(append([]byte{}, whole[:8]...), 9), whole[9:200]...),
	} {
		search := newSearch(t, func(c *Config) { c.File = write(t, b) })
		if found, took := search.run(patience); found.Content != nil || took > patience/2 || !search.said(said) {
			t.Errorf("%s: %q after %s\n%s", said, found.From, took, search.lines())
		}
	}
	search = newSearch(t, func(c *Config) { c.File = write(t, whole[:len(whole)-200]) })
	found, took := search.run(time.Second / 2)
	if found.Content == nil || took < time.Second/4 || !search.said("is damaged") {
		t.Errorf("what is there of a file that is cut: %q after %s\n%s", found.From, took, search.lines())
	}
	search = newSearch(t, func(c *Config) { c.File = filepath.Join(t.TempDir(), "never") })
	if found, _ := search.run(time.Second / 4); found.Content != nil || !search.said("has no resources") {
		t.Errorf("a file that never comes: %q\n%s", found.From, search.lines())
	}
	search = newSearch(t, func(c *Config) { c.File = write(t, whole) }, newSibling(t, 3, 48*time.Hour))
	if found, _ := search.run(patience); resourcesOf(t, found) != 3 {
		t.Errorf("a sibling comes first: %q\n%s", found.From, search.lines())
	}
}

// FuzzHead: no text makes ParseHead or what goes by it panic, and what is believed has no time that
// has not come.
func FuzzHead(f *testing.F) {
	good, _ := json.Marshal(Head{Process: "p", Deployment: "weir", Format: 1, Origins: []Origin{{Name: "mesh", Resources: 3, Vouched: time.Now()}}})
	for _, text := range []string{
		string(good), "", "{}", "[]", `{"process":"p","origins":[{"resources":9223372036854775807},{"resources":9223372036854775807}]}`,
		`{"process":"p","deployment":"weir","origins":[{"name":"mesh","resources":1,"vouched":"9999-12-31T23:59:59Z"}]}`,
	} {
		f.Add([]byte(text))
	}
	now := time.Now()
	s := &Search{cfg: Config{Origins: []string{"mesh", ""}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseHead(text)
		if err != nil || h.believe("weir", now) != nil {
			return
		}
		if n, vouched := h.holds(s.cfg.Origins); n < 0 || len(vouched) != 2 || vouched[0].After(now.Add(maxAhead)) {
			t.Errorf("%d %v", n, vouched)
		}
		if c := s.compare(&h, &h); c != 0 {
			t.Errorf("it is better than itself: %d", c)
		}
		_ = h.readable(nil)
	})
}

// TestFilledUp: what the best sibling lacks and another one has is there as well, and one that
// cannot give it changes nothing.
func TestFilledUp(t *testing.T) {
	more := newSibling(t, 30, 2*time.Minute)
	more.table = newTable(t, 0, "")
	group, err := more.table.Origin("mesh").Group(relaytest.Node("n", "another group"))
	if err != nil {
		t.Fatal(err)
	}
	fillTable(t, more.table, group, 7, "x")
	best := newSibling(t, 10, 0)
	search := newSearch(t, nil, best, more)
	if found, _ := search.run(patience); resourcesOf(t, found) != 17 || found.From != "sibling "+best.address() {
		t.Errorf("%d resources, want 17:\n%s", resourcesOf(t, found), search.lines())
	}
	altered(func(_ *sibling, b []byte) []byte { return b[:300] })(more)
	search = newSearch(t, nil, best, more)
	if found, _ := search.run(patience); resourcesOf(t, found) != 10 || !search.said("could not copy further resources") {
		t.Errorf("%d resources, want 10:\n%s", resourcesOf(t, found), search.lines())
	}
}
