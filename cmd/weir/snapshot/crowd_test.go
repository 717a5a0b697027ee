package snapshot

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// crowd is a world with groups that each have at most one client, of `*`. The origin counts as
// away, so what no client wants any more stays.
type crowd struct {
	*world
	rooms map[string]*room  // by the node's cluster
	names map[string]string // of the rooms, by the group's key
	lanes map[*relay.Group]*relay.Lane
	disk  *watched
	// resources are those that kept found.
	resources int
}

// room is one group, with a client.
type room struct {
	group *relay.Group
	sub   *relay.Sub // nil: it has none by now
}

func newCrowd(t testing.TB, dir string, maxBytes int64, edit ...func(*Config)) *crowd {
	t.Helper()
	table, err := relay.New(relay.Config{Linger: 10 * time.Minute, Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	disk := &watched{dir: dir}
	w := newWorld(t, dir, append(edit, func(cfg *Config) {
		cfg.Table, cfg.MaxBytes, cfg.files = table, maxBytes, disk
	})...)
	w.table, w.away = table, true
	return &crowd{
		world: w, rooms: map[string]*room{}, names: map[string]string{}, lanes: map[*relay.Group]*relay.Lane{}, disk: disk,
	}
}

// comes has a client of the group come.
func (c *crowd) comes(cluster string) {
	c.t.Helper()
	group, err := c.table.Origin("mesh").Group(relaytest.Node("n", cluster))
	if err != nil {
		c.t.Fatal(err)
	}
	r := &room{group: group, sub: group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: clusters, Delta: true})}
	r.sub.Update(c.now, []string{xds.Wildcard}, nil)
	for _, l := range c.table.Origin("mesh").TakeLanes() {
		l.Open(c.now, 0)
		c.lanes[l.Group()] = l
	}
	c.rooms[cluster], c.names[group.Key()] = r, cluster
}

// goes has the client of the group go.
func (c *crowd) goes(cluster string) {
	r := c.rooms[cluster]
	r.group.Release(c.now)
	r.sub.Close(c.now)
	r.sub = nil
}

func (c *crowd) has(cluster string) bool {
	return c.rooms[cluster] != nil && c.rooms[cluster].sub != nil
}

// gives has the origin answer the group, which has a client: n resources of a size each.
func (c *crowd) gives(cluster string, n, size int, text string) {
	c.t.Helper()
	c.lane = c.lanes[c.rooms[cluster].group]
	c.lane.Take(c.now, false)
	c.apply(clusters, numbered(n, text+strings.Repeat("x", size)))
}

// passes has time pass, a minute after the other.
func (c *crowd) passes(d time.Duration) {
	for range d / time.Minute {
		c.now = c.now.Add(time.Minute)
		c.table.Advance(c.now)
		c.save()
	}
}

// kept returns the clusters of the groups in the file, sorted.
func (c *crowd) kept() string {
	c.t.Helper()
	content, err := Read(File(c.dir), c.cfg.Keys)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := content.Check(); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	summary := content.Summary(false)
	c.resources = summary.Resources
	for _, x := range summary.Types {
		names = append(names, c.names[x.Group])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// watched is the disk, looked at after each change, and may fail.
type watched struct {
	disk
	dir     string
	largest int64 // that the directory was
	written int64
	creates int
	random  *rand.Rand // nil: nothing fails
	dies    int        // after so many operations the process is as if killed; 0: it lives
	dead    bool
}

var errUnlucky = errors.New("unlucky")

func (w *watched) look() { w.largest = max(w.largest, used(w.dir)) }

func (w *watched) unlucky() error {
	if w.dies > 0 {
		w.dies--
		w.dead = w.dies == 0
	}
	if w.dead || w.random != nil && w.random.IntN(20) == 0 {
		return errUnlucky
	}
	return nil
}

func (w *watched) Open(path string, create bool) (file, error) {
	defer w.look()
	if w.dead {
		return nil, errUnlucky
	}
	w.creates++
	f, err := w.disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w}, nil
}

func (w *watched) Rename(from, to string) error {
	defer w.look()
	return unless(w.unlucky(), func() error { return w.disk.Rename(from, to) })
}

func (w *watched) Remove(path string) error {
	defer w.look()
	return unless(w.unlucky(), func() error { return w.disk.Remove(path) })
}

func unless(err error, f func() error) error {
	if err != nil {
		return err
	}
	return f()
}

type watchedFile struct {
	file
	disk *watched
}

func (f *watchedFile) WriteAt(b []byte, at int64) (int, error) {
	defer f.disk.look()
	if f.disk.dead {
		return 0, errUnlucky
	}
	err := f.disk.unlucky()
	if err != nil {
		b = b[:len(b)/2]
	}
	n, werr := f.file.WriteAt(b, at)
	f.disk.written += int64(n)
	return n, errors.Join(err, werr)
}

func (f *watchedFile) Sync() error { return unless(f.disk.unlucky(), f.file.Sync) }

func (f *watchedFile) Truncate(size int64) error {
	defer f.disk.look()
	return unless(f.disk.unlucky(), func() error { return f.file.Truncate(size) })
}

// used is what the files of a directory take, each once if it has two names.
func used(dir string) (n int64) {
	seen := map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			if id := info.Sys().(*syscall.Stat_t).Ino; !seen[id] {
				seen[id] = true
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// beside writes the configuration beside the snapshot, as cmd/weir does.
func (c *crowd) beside(size int64) {
	c.t.Helper()
	path := filepath.Join(c.dir, "weir.yaml.last-good")
	if err := os.WriteFile(path+".tmp", make([]byte, size), fileMode); err != nil {
		c.t.Fatal(err)
	}
	c.disk.look()
	if err := os.Rename(path+".tmp", path); err != nil {
		c.t.Fatal(err)
	}
}
