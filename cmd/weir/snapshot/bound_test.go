package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// TestDirectoryStaysBounded, over random histories: whatever comes, changes, goes, is killed, is
// damaged or fails, the directory never has more than max_bytes. What is in the file is whole.
func TestDirectoryStaysBounded(t *testing.T) {
	random := seed.Rand(t)
	histories := 12
	if testing.Short() {
		histories = 4
	}
	var left, asides, failed, nearly int
	for i := range histories {
		dir := t.TempDir()
		maxBytes := int64(LeastBytes + random.IntN(LeastBytes))
		edit := func(cfg *Config) {}
		if i/2%2 == 0 {
			keys := testKeys(t, 'x')
			edit = func(cfg *Config) { cfg.Keys = keys }
		}
		c := newCrowd(t, dir, maxBytes, edit)
		failing := i%2 == 0
		var largest int64
		for step := range 60 {
			cluster := fmt.Sprint("cluster", random.IntN(6))
			c.disk.random = nil
			if failing {
				c.disk.random = random
			}
			switch n := random.IntN(20); {
			case n < 3 && c.has(cluster):
				c.goes(cluster)
			case n < 9:
				if !c.has(cluster) {
					c.comes(cluster)
				}
				c.gives(cluster, 1+random.IntN(12), random.IntN(1<<(10+random.IntN(6))), fmt.Sprint(random.IntN(1000)))
			case n < 10:
				c.beside(random.Int64N(MaxBeside(maxBytes) + 1))
			case n < 12: // the process is killed, and the file may be damaged
				c.disk.dies = random.IntN(6)
				c.keeper.save(c.now)
				if Exists(dir) && n == 11 {
					damageAt(t, dir, random.Float64())
				}
				c.end()
				now := c.now
				largest = max(largest, c.disk.largest)
				c = newCrowd(t, dir, maxBytes, edit)
				c.now = now
				c.load()
				asides += len(aside(t, dir))
			case n < 14:
				c.now = c.now.Add(20 * time.Minute)
				c.table.Advance(c.now)
			}
			c.keeper.save(c.now)
			c.disk.look()
			s := c.keeper.Status()
			left += s.LeftOutGroups.Groups
			if s.Error != "" {
				failed++
				continue
			}
			if s.Bytes > 0 && Exists(dir) && step%4 == 0 {
				if c.kept(); c.resources != s.Resources {
					t.Errorf("%d resources are in the file, want %d", c.resources, s.Resources)
				}
			}
		}
		if largest = max(largest, c.disk.largest); largest > maxBytes {
			t.Errorf("the directory was %d bytes, with max_bytes %d", largest, maxBytes)
		} else if largest > maxBytes/2 {
			nearly++
		}
	}
	t.Logf("%d groups left out, %d copies, %d failed writes, %d histories near the bound", left, asides, failed, nearly)
	if left == 0 || asides == 0 || failed == 0 || nearly == 0 {
		t.Error("the test is not what it seems")
	}
}

// damageAt flips a bit somewhere in the file.
func damageAt(t *testing.T, dir string, place float64) {
	t.Helper()
	data, err := os.ReadFile(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	data[int(place*float64(len(data)))] ^= 1
	if err := os.WriteFile(File(dir), data, fileMode); err != nil {
		t.Fatal(err)
	}
}

// TestCopiesMakeRoom: copies that were set aside go before a group is left out, the oldest first,
// and stay where there is room.
func TestCopiesMakeRoom(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	c.comes("aa")
	c.gives("aa", 10, 25_000, "one")
	c.save()
	for i := range 5 {
		c.end()
		damageAt(t, dir, .5)
		now := c.now.Add(time.Duration(i) * time.Hour)
		c = newCrowd(t, dir, least)
		c.now = now
		c.load()
		c.comes("aa")
		c.gives("aa", 10, 25_000, fmt.Sprint(i))
		before := aside(t, dir)
		c.save()
		after := aside(t, dir)
		if c.disk.largest > least || c.keeper.Status().LeftOutGroups.Groups != 0 {
			t.Errorf("the directory was %d bytes: %+v", c.disk.largest, c.keeper.Status())
		}
		if n := len(before) - len(after); c.said("removed an old copy of the snapshot") != n || !strings.HasSuffix(fmt.Sprint(before), strings.TrimPrefix(fmt.Sprint(after), "[")) {
			t.Errorf("of %q are left %q", before, after)
		}
	}
	if n := len(aside(t, dir)); n == 0 || n == maxAside {
		t.Errorf("%d copies are left: the test is not what it seems", n)
	}
}

// TestAnotherBound: a file that is larger than the bound allows is replaced by one that is not, and
// stays until that is whole.
func TestAnotherBound(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, 0)
	for i := range 10 {
		c.comes(fmt.Sprint("g", i))
		c.gives(fmt.Sprint("g", i), 10, 10_000, "one")
	}
	c.save()
	c.end()
	before := c.text()
	next := newCrowd(t, dir, least)
	next.now = c.now
	if next.load(); next.text() != before || next.said("written with another cache.snapshot.max_bytes") != 1 {
		t.Fatalf("restored\n%s", next.text())
	}
	next.disk.random = nil
	next.save()
	if n := used(dir); n > least || next.keeper.Status().LeftOutGroups.Groups != 8 {
		t.Errorf("%d bytes, %+v", n, next.keeper.Status())
	}
	next.disk.largest = 0
	next.comes("g3")
	next.gives("g3", 10, 10_000, "two")
	if next.save(); next.disk.largest > least {
		t.Errorf("the directory was %d bytes after that", next.disk.largest)
	}
}

// TestFullDirectoryIsEncrypted: there is room for the whole content once more, in another form, also
// where the directory is as full as it gets, and nothing of it is restored.
func TestFullDirectoryIsEncrypted(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	c.comes("aa")
	for i := range 30 {
		c.gives("aa", 10, 26_500, fmt.Sprintf("%02d", i))
		if c.save(); i > 2 && fileSize(t, dir) > 500_000 {
			break
		}
	}
	c.end()
	keys := testKeys(t, 'x')
	next := newCrowd(t, dir, least, func(cfg *Config) {
		cfg.Keys, cfg.Origins = keys, func() []OriginState { return nil }
	})
	next.load()
	next.save()
	if s := next.keeper.Status(); s.Key != keys.ID() || next.disk.largest > least || next.disk.largest < 800_000 {
		t.Errorf("the directory was %d bytes: %+v", next.disk.largest, s)
	}
}

// TestImportIsBounded: what has no room is refused, and nothing is left of it.
func TestImportIsBounded(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 3000).end()
	c, err := Read(File(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := c.Import(to, false, nil, least); !errors.Is(err, errNoRoom) || used(to) > 0 {
		t.Errorf("%v, %d bytes are there", err, used(to))
	}
	if _, err := c.Import(to, false, nil, 4*least); err != nil {
		t.Error(err)
	}
}

// TestBoundedVolume: on a file system of that size nothing ever lacks room.
func TestBoundedVolume(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a tmpfs")
	}
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, fmt.Sprintf("size=%d", least)); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c, asides := newCrowd(t, mount, least), 0
	for i := range 80 {
		cluster := fmt.Sprint("g", i%4)
		if !c.has(cluster) {
			c.comes(cluster)
		}
		c.gives(cluster, 10, 9_500, fmt.Sprint(i))
		c.beside(MaxBeside(least))
		c.save()
		if i%20 == 10 {
			c.end()
			damageAt(t, mount, .7)
			now := c.now
			c = newCrowd(t, mount, least)
			c.now = now
			c.load()
			asides += len(aside(t, mount))
		}
	}
	if s := c.keeper.Status(); s.Live < 180_000 || asides == 0 {
		t.Errorf("%+v: the test is not what it seems", s)
	}
}

// TestForeignFilesCount: a file that is not weir's counts, too.
func TestForeignFilesCount(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	for _, cluster := range []string{"aa", "bb"} {
		c.comes(cluster)
		c.gives(cluster, 10, 9000, "one")
	}
	if err := os.WriteFile(filepath.Join(dir, "somebody's"), make([]byte, 500_000), fileMode); err != nil {
		t.Fatal(err)
	}
	c.save()
	if got := c.kept(); len(got) != len("aa") || c.disk.largest > least {
		t.Errorf("kept %q, and the directory was %d bytes", got, c.disk.largest)
	}
}
