package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// keeping is a weir.yaml with all it names in a directory, by relative paths, and processes that
// run it.
type keeping struct {
	t    *testing.T
	dir  string
	file string
	last *child
}

func newKeeping(t *testing.T) *keeping {
	t.Setenv("WEIR_TEST_GREETING", "hush")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	files(filepath.Join(dir, "d")).put(t, "cds.yaml", clusters("a"))
	return &keeping{t: t, dir: dir, file: filepath.Join(dir, "weir.yaml")}
}

// text is a configuration that says something.
func (k *keeping) text(more string) string {
	return freePorts + `name: "${WEIR_TEST_GREETING}"
origins: [{ name: disk, files: { path: d } }]
cache: { snapshot: { path: snap, interval: 100ms } }
` + more
}

func (k *keeping) put(text string) {
	k.t.Helper()
	if err := os.WriteFile(k.file+".next", []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(k.file+".next", k.file); err != nil {
		k.t.Fatal(err)
	}
}

// start runs a weir in the place of the last one, which is killed.
func (k *keeping) start(flags ...string) *child {
	k.t.Helper()
	k.kill()
	k.last = spawn(k.t, os.Args[0], append([]string{"run", "-c", k.file}, flags...)...)
	return k.last
}

// kill ends the weir that runs, if one does, without giving it a chance to do anything.
func (k *keeping) kill() {
	k.t.Helper()
	if k.last != nil {
		k.last.signal(syscall.SIGKILL)
		k.last.waitEnd()
		k.last = nil
	}
}

// serves fails unless the weir serves.
func (k *keeping) serves(w *child) (admin string) {
	k.t.Helper()
	address, admin := w.addresses()
	c := openClient(k.t, dial(k.t, address), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "it serves", "a")
	return admin
}

// page is what the admin port says on a path.
func (k *keeping) page(admin, path string) string {
	k.t.Helper()
	_, body := fetch(k.t, "GET", "http://"+admin+path)
	return body
}

// wants waits until a path of the admin port has all parts.
func (k *keeping) wants(admin, path string, parts ...string) {
	k.t.Helper()
	var body string
	await(k.t, fmt.Sprintf("%s has %q", path, parts), func() bool {
		body = k.page(admin, path)
		for _, part := range parts {
			if !strings.Contains(body, part) {
				return false
			}
		}
		return true
	})
}

func info(text string) string {
	return fmt.Sprintf("weir_config_info{hash=\"%x\"} 1\n", sha256.Sum256([]byte(text)))
}

const (
	reloadOK     = "weir_config_last_reload_successful 1\n"
	reloadFailed = "weir_config_last_reload_successful 0\n"
)

// accepted is when the metrics say that the file in force was accepted.
func (k *keeping) accepted(admin string) time.Time {
	k.t.Helper()
	for line := range strings.Lines(k.page(admin, "/metrics")) {
		if text, is := strings.CutPrefix(line, "weir_config_last_reload_success_timestamp_seconds "); is {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				k.t.Fatal(err)
			}
			return time.UnixMilli(int64(1000 * seconds))
		}
	}
	return time.Time{}
}

// TestLastGood: a config file that is broken while weir runs is no time bomb: killed and started,
// weir serves with what it accepted last, and says so everywhere.
func TestLastGood(t *testing.T) {
	k := newKeeping(t)
	first, second := k.text(""), k.text("limits: { groups: 7 }\n")
	k.put(first)
	admin := k.serves(k.start("--last-good"))
	k.wants(admin, "/metrics", reloadOK, info(first))
	k.put(second)
	k.wants(admin, "/metrics", reloadOK, info(second))
	kept := filepath.Join(k.dir, "snap", "weir.yaml.last-good")
	if text, err := os.ReadFile(kept); err != nil || string(text) != second {
		t.Errorf("%v, kept is\n%s", err, text)
	}
	if s, err := os.Stat(kept); err != nil || s.Mode() != 0o600 {
		t.Errorf("%v, %v", s, err)
	}
	broken := k.text("limits: { groups: many }\n")
	k.put(broken)
	k.wants(admin, "/metrics", reloadFailed, info(second))

	again := time.Now()
	time.Sleep(1100 * time.Millisecond) // dates in the file are of seconds
	admin = k.serves(k.start("--last-good"))
	k.wants(admin, "/metrics", reloadFailed, info(second))
	if at := k.accepted(admin); at.IsZero() || at.After(again) {
		t.Errorf("what is in force was accepted at %v, and weir was started again after %v", at, again)
	}
	const problem = `limits.groups: \"many\" is not a whole number`
	k.wants(admin, "/overview", "was refused", "at the start", "accepted last", problem)
	k.wants(admin, "/config", "groups: 7", "# the file was refused at ", `"many" is not a whole number`, kept, fmt.Sprintf("%x", sha256.Sum256([]byte(second))))
	k.wants(admin, "/readyz", "config_refused", "config_last_good")
	code, stdout, stderr := weir(t, "status", "--admin", admin)
	if code != exitOK || !strings.Contains(stdout, "was refused") || !strings.Contains(stdout, "accepted last") || !strings.Contains(stdout, `"many" is not a whole number`) {
		t.Errorf("weir status: %d, %s\n%s", code, stderr, stdout)
	}
	const said = "the configuration is refused; the one that was accepted last is in force"
	if n := strings.Count(k.last.errs.String(), said); n != 1 || !strings.Contains(k.last.errs.String(), `"problem":"\"many\" is not a whole number"`) {
		t.Errorf("the log says it %d times", n)
	}
	// It is refused again and again, and put right with the same text as before.
	k.put(k.text("limits: { groups: more }\n"))
	k.wants(admin, "/config", `"more" is not a whole number`, kept)
	k.put(second)
	k.wants(admin, "/metrics", reloadOK, info(second))
	await(t, "the page says so no more", func() bool { return !strings.Contains(k.page(admin, "/overview"), "refused") })
	// Another that is taken is kept, in the place of the last.
	third := second + "# a word\n"
	k.put(third)
	k.wants(admin, "/metrics", reloadOK, info(third))
	if text, err := os.ReadFile(kept); err != nil || string(text) != third {
		t.Errorf("%v, kept is\n%s", err, text)
	}
}

// TestLastGoodWhateverIsBroken: the way to the last accepted one does not lead through the broken
// file.
func TestLastGoodWhateverIsBroken(t *testing.T) {
	k := newKeeping(t)
	good := k.text("")
	k.put(good)
	state := filepath.Join(k.dir, "state")
	k.serves(k.start("--last-good=" + state))
	k.serves(k.start()) // which keeps it as well, beside the snapshot
	for name, row := range map[string]struct {
		broken string // "": the file is gone
		flag   string
	}{
		"a mistake":                 {k.text("nmae: x\n"), "--last-good"},
		"no YAML":                   {k.text("limits: [\n"), "--last-good"},
		"no YAML before":            {"name: ]\n" + k.text(""), "--last-good"},
		"a variable is not set":     {strings.ReplaceAll(k.text(""), "WEIR_TEST_GREETING", "WEIR_TEST_NOTHING"), "--last-good"},
		"a certificate is gone":     {strings.Replace(k.text(""), `"127.0.0.1:0" }]`, `"127.0.0.1:0", tls: { cert: c, key: k } }]`, 1), "--last-good"},
		"the directory is gone":     {strings.Replace(k.text(""), "path: d ", "path: nowhere ", 1), "--last-good"},
		"cut off":                   {k.text("")[:40], "--last-good=" + state},
		"empty":                     {"\n", "--last-good=" + state},
		"gone":                      {"", "--last-good=" + state},
		"the port is not to be had": {strings.Replace(k.text(""), `admin: { address: "127.0.0.1:0" }`, `admin: { address: "192.0.2.1:1", insecure: true }`, 1), "--last-good"},
	} {
		t.Run(name, func(t *testing.T) {
			k.kill()
			k.t = t
			defer k.kill()
			k.put(row.broken)
			if row.broken == "" {
				if err := os.Remove(k.file); err != nil {
					t.Fatal(err)
				}
			}
			admin := k.serves(k.start(row.flag))
			k.wants(admin, "/metrics", reloadFailed, info(good))
		})
	}
}

// TestLastGoodIsAskedFor: without the flag, and with nothing kept or nothing that can be used, a
// refused file keeps weir from starting.
func TestLastGoodIsAskedFor(t *testing.T) {
	k := newKeeping(t)
	k.put(k.text(""))
	k.serves(k.start())
	fails := func(sentence string, flags []string, parts ...string) {
		t.Helper()
		w := k.start(flags...)
		if code := w.waitEnd(); code != exitFailed {
			t.Errorf("%s: exit code %d", sentence, code)
		}
		for _, part := range parts {
			if !strings.Contains(w.errs.String(), part) {
				t.Errorf("%s: nothing is said of %q in\n%s", sentence, part, w.errs.String())
			}
		}
		k.last = nil
	}
	k.put(k.text("limits: { groups: many }\n"))
	fails("without the flag", nil, `weir.yaml:7:19: limits.groups: "many" is not`)
	empty := filepath.Join(k.dir, "nothing")
	fails("nothing is kept", []string{"--last-good=" + empty}, `weir.yaml:7:19: limits.groups`, filepath.Join(empty, "weir.yaml.last-good"))
	k.put("name: [")
	fails("the file does not say where", []string{"--last-good"}, "not valid YAML", "--last-good=DIR")
	kept := filepath.Join(k.dir, "snap", "weir.yaml.last-good")
	if err := os.WriteFile(kept, []byte("name: 1\nlimits: { views: many }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.put(k.text("limits: { groups: many }\n"))
	fails("what is kept is broken too", []string{"--last-good"}, `weir.yaml:7:19: limits.groups`, kept+`:2:18: limits.views`)

	// With nowhere to keep it, weir serves, and says so.
	k.put(strings.Replace(k.text(""), "path: snap, ", "", 1))
	w := k.start("--last-good")
	k.serves(w)
	if !strings.Contains(w.errs.String(), "cache.snapshot.path is empty") {
		t.Error("nothing is said of there being no place")
	}
}

// TestLastGoodHasNoRoom: a configuration that would take the room of a bounded snapshot beside it
// is not kept, and that is said. What was kept before stays.
func TestLastGoodHasNoRoom(t *testing.T) {
	k := newKeeping(t)
	bounded := strings.Replace(k.text(""), "path: snap,", "path: snap, max_bytes: 1MiB,", 1)
	k.put(bounded)
	admin := k.serves(k.start())
	k.wants(admin, "/metrics", reloadOK, info(bounded))
	long := bounded + strings.Repeat("# much to say\n", 3000)
	k.put(long)
	k.wants(admin, "/metrics", reloadOK, info(long))
	if text, err := os.ReadFile(filepath.Join(k.dir, "snap", lastGoodName)); err != nil || string(text) != bounded {
		t.Errorf("%v, kept are %d bytes", err, len(text))
	}
	if log := k.last.errs.String(); !strings.Contains(log, "cannot save the accepted configuration") || !strings.Contains(log, "cache.snapshot.max_bytes leaves 32768 for it") {
		t.Errorf("the log does not say it:\n%s", log)
	}
}
