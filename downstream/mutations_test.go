package downstream

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var mutations = flag.String("mutations", "", "make the mutations of testdata/mutations/mutations.txt whose names contain one of these, A|B (all: every one), and play each")

// mutation is a mistake in the code: one text in a file is another one.
type mutation struct{ name, file, old, wrong string }

// mutationPlays is within how many plays each mutation has to be found. They take some ten seconds;
// what takes mutationTime does not end.
const (
	mutationPlays = 200
	mutationTime  = 5 * time.Minute
)

// readMutations reads testdata/mutations/mutations.txt. A mutation begins with "== NAME", then the file, then
// the text as it is, a line "--", and the text as it would be.
func readMutations(t *testing.T) (all []mutation) {
	data, err := os.ReadFile("testdata/mutations/mutations.txt")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(data), "\n== ") {
		if strings.TrimSpace(part) == "" || strings.HasPrefix(part, "\n#") {
			continue
		}
		name, rest, _ := strings.Cut(part, "\n")
		file, rest, _ := strings.Cut(rest, "\n")
		old, wrong, is := strings.Cut(rest, "\n--\n")
		if !is {
			t.Fatalf("%s: no --", name)
		}
		all = append(all, mutation{name, strings.TrimSpace(file), strings.TrimRight(old, "\n"), strings.TrimRight(wrong, "\n")})
	}
	return all
}

// TestMutationsAreWritten: the texts of all mutations are in the code once, so that each can be made.
func TestMutationsAreWritten(t *testing.T) {
	all := readMutations(t)
	for _, m := range all {
		code, err := os.ReadFile(filepath.Join("..", m.file))
		if n := strings.Count(string(code), m.old); err != nil || n != 1 {
			t.Errorf("%s: its text is in %s %d times, %v", m.name, m.file, n, err)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d mutations", len(all))
	}
}

// TestMutations, with -mutations: each mutation raises an alarm, in one of the first plays, that the
// code as it is does not raise. It builds this package for each, which takes a minute.
func TestMutations(t *testing.T) {
	if *mutations == "" {
		t.Skip("no -mutations")
	}
	dir := t.TempDir()
	good := alarmsOf(t, dir, nil)
	for _, m := range readMutations(t) {
		of := func(part string) bool { return strings.Contains(m.name, part) }
		if *mutations != "all" && !slices.ContainsFunc(strings.Split(*mutations, "|"), of) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			for _, a := range alarmsOf(t, dir, &m) {
				if !slices.Contains(good, a) {
					t.Logf("found: %s", a)
					return
				}
			}
			t.Errorf("%d plays do not find it", mutationPlays)
		})
	}
}

var alarmLine = regexp.MustCompile(`(?m)^ +world_play_test.go:\d+: (\d+: [a-z]+: .*)$`)

// alarmsOf are those of the plays from seed 1 on, as a rule from the code with a mutation.
func alarmsOf(t *testing.T, dir string, m *mutation) (alarms []string) {
	t.Helper()
	program := filepath.Join(dir, "mutated.test")
	args := []string{"test", "-c", "-o", program}
	if m != nil {
		file, err := filepath.Abs(filepath.Join("..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
		replaced, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{mutated: strings.Replace(string(code), m.old, m.wrong, 1), overlay: string(replaced)} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutationTime)
	defer cancel()
	play := exec.CommandContext(ctx, program, "-test.run=^TestWorldTable$", "-test.v", "-seed=1", fmt.Sprintf("-table=%d", mutationPlays))
	out, err := play.CombinedOutput()
	if err != nil && m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, found := range alarmLine.FindAllStringSubmatch(string(out), -1) {
		alarms = append(alarms, found[1])
	}
	if err != nil { // it did not come to its end, by a deadlock, an endless loop or the like
		alarms = append(alarms, fmt.Sprintf("the program ends: %v", err))
	}
	return alarms
}
