package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// equaling has the options of the command equal.
type equaling struct {
	study
	setting  equalSetting
	dialects []string
	rounds   int
	profiles profiles

	connectRate int
}

// equalSetting is what is the same in all runs.
type equalSetting struct {
	Clients   int `json:"clients"` // groups as well, or one
	Resources int `json:"resources"`
	Bytes     int `json:"resource_bytes"`
	Changes   int `json:"changes"`
}

// equalled is what was measured, and where.
type equalled struct {
	Machine machine      `json:"machine"`
	Setting equalSetting `json:"setting"`
	Runs    []equalRun   `json:"runs"` // in the order in which they were measured
}

// equalRun is a run with a number of groups. CPU is weir's.
type equalRun struct {
	Dialect    string  `json:"dialect"` // of the clients, and of the origin
	Groups     int     `json:"groups"`
	Deliveries int64   `json:"deliveries"`
	DeliveryUS float64 `json:"cpu_us_per_delivery"` // with all that the change costs
	AnswerUS   float64 `json:"cpu_us_per_answer"`   // of the origin's, if it changes nothing
	LastMS     float64 `json:"last_p50_ms"`
}

// repeats is how often the origin sends again what its groups have.
const repeats = 5

// equalMost is the target: a delivery to a group of its own, without the reading of the origin's
// answer, by one in a group of all.
const equalMost = 2

func newEqualCommand() *cobra.Command {
	c := &equaling{}
	cmd := c.command(&cobra.Command{
		Use: "equal", Short: "Compare groups of one client each that are all answered the same with one group of all the clients",
	}, c.run)
	fs := cmd.Flags()
	fs.IntVar(&c.setting.Clients, "clients", 10_000, "how many there are, in as many groups and in one")
	fs.IntVar(&c.setting.Resources, "resources", 100, "how many clusters there are")
	fs.IntVar(&c.setting.Bytes, "bytes", 436, "about how many bytes an encoded cluster has")
	fs.IntVar(&c.setting.Changes, "changes", 10, "how many clusters change in a run, each when all clients have the one before")
	fs.StringSliceVar(&c.dialects, "dialects", []string{"delta", "sotw"}, "of the clients and of the origin")
	fs.IntVar(&c.connectRate, "connect-rate", 250, "how many clients come in a second; on a busy machine fewer")
	fs.IntVar(&c.rounds, "rounds", 3, "how often each is measured, in turn; 0: not at all, only profiles are taken")
	fs.StringVar((*string)(&c.profiles), "profile", "", "directory for CPU and heap profiles of weir, for which each is run once more")
	fs.Lookup("pause").Usage, fs.Lookup("pause").DefValue = "how long the clients stay after the changes, for the origin to answer once more", "40s"
	c.pause = 40 * time.Second
	return cmd
}

func (c *equaling) run(ctx context.Context, out io.Writer) error {
	return c.study.run(ctx, out, func(files []string) (findings, error) {
		all := &equalled{}
		return all, readJSON(files, func(one *equalled) {
			all.Machine, all.Setting, all.Runs = one.Machine, one.Setting, append(all.Runs, one.Runs...)
		})
	}, c.measure)
}

func (c *equaling) measure(ctx context.Context) (findings, error) {
	found := &equalled{Machine: thisMachine(), Setting: c.setting}
	for round := range c.rounds {
		for _, dialect := range c.dialects {
			for _, groups := range []int{c.setting.Clients, 1} {
				what := fmt.Sprintf("%s, round %d, %d groups", dialect, round+1, groups)
				err := c.timed(what, func() error {
					r, err := c.one(ctx, dialect, groups)
					if r != nil && r.Deliveries > 0 { // or it only did not end as it should
						found.Runs = append(found.Runs, *r)
						fmt.Fprintf(c.log, "%s: %.1f us a delivery, %.1f us an answer\n", what, r.DeliveryUS, r.AnswerUS)
					}
					return err
				})
				if err != nil {
					return found, fmt.Errorf("%s: %w", what, err)
				}
			}
		}
	}
	if c.profiles == "" {
		return found, nil
	}
	return found, c.profile(ctx)
}

// start starts a weir for a number of groups, behind an origin.
func (c *equaling) start(ctx context.Context, dialect string, groups int) (*server, *fleet.Config, error) {
	o := world.Options{Kind: world.Clusters, Resources: c.setting.Resources, Bytes: c.setting.Bytes}
	s, err := startPlane(ctx, c.programs.weirload, "origin", &o)
	if err != nil {
		return nil, nil, err
	}
	config, n := s.config(), c.setting.Clients
	origin := config["origins"].([]any)[0].(map[string]any)
	origin["grpc"].(map[string]any)["dialect"] = dialect
	if groups > 1 {
		origin["group_by"] = []any{"cluster"}
	}
	// changes are measured, not the pace at which streams are admitted and opened
	config["limits"] = map[string]any{"groups": 2 * n, "new_groups_per_second": 100_000, "new_streams_per_second": 100_000}
	config["timing"].(map[string]any)["cold_wait"] = "14s"
	if err := s.before(c.programs.weir, c.dir, config); err != nil {
		return nil, nil, err
	}
	return s, &fleet.Config{
		Server: s.xds, Control: s.control, Dialect: fleet.Dialect(dialect), Clients: n, Resources: c.setting.Resources, Groups: groups,
		ConnectRate: c.connectRate, Idle: wait, Changes: c.setting.Changes, Patience: 2 * time.Minute, PIDs: s.pids[:1],
	}, nil
}

// one measures one run: the changes, and then the origin's answers in a pause in which they change
// nothing.
func (c *equaling) one(ctx context.Context, dialect string, groups int) (*equalRun, error) {
	s, cfg, err := c.start(ctx, dialect, groups)
	if err != nil {
		return nil, err
	}
	run := &equalRun{Dialect: dialect, Groups: groups}
	err = s.with(func(ctx context.Context) error {
		if groups == 1 { // its one answer is shared by all
			r, err := c.programs.fleet(ctx, cfg, world.Clusters)
			if err == nil {
				run.Deliveries, run.DeliveryUS, run.LastMS = r.Deliveries, r.Servers[0].CPUPerDelivery, r.LastP50
			}
			return err
		}
		cfg.Rest = c.pause
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var read chan error // nil until the pause begins
		r, err := c.programs.fleet(ctx, cfg, world.Clusters, cue{resting, func() {
			read = make(chan error, 1)
			go func() {
				spent, err := repeatAnswers(ctx, s, groups)
				run.AnswerUS = spent.Seconds() * 1e6 / float64(repeats*groups)
				read <- err
			}()
		}})
		if read == nil {
			return errors.Join(err, errors.New("the fleet did not rest"))
		}
		select {
		case failed := <-read:
			err = errors.Join(err, failed)
		default:
			cancel()
			err = errors.Join(err, fmt.Errorf("a pause of %v was too short for %d answers to each group", c.pause, repeats), <-read)
		}
		if err != nil {
			return err
		}
		run.Deliveries, run.DeliveryUS, run.LastMS = r.Deliveries, r.Servers[0].CPUPerDelivery, r.LastP50
		return c.nothingMore(r)
	})
	return run, err
}

// nothingMore returns an error if clients were sent more than their first state and the changes.
func (c *equaling) nothingMore(r *fleet.Report) error {
	each := c.setting.Resources + c.setting.Changes
	if r.Dialect == string(fleet.SotW) {
		each = c.setting.Resources * (1 + c.setting.Changes)
	}
	if most := int64(each * c.setting.Clients); r.ResourcesReceived > most {
		return fmt.Errorf("%d resources came to clients, more than %d: what the origin repeated was sent to them", r.ResourcesReceived, most)
	}
	return nil
}

// repeatAnswers has the origin send its last change again to all groups, and returns the CPU time
// that weir spends on it: for reading it, seeing that it changes nothing, and its ACK.
func repeatAnswers(ctx context.Context, s *server, groups int) (time.Duration, error) {
	control := &world.Client{Addr: s.control}
	if err := pass(ctx, time.Second); err != nil { // the ACKs of the changes are there
		return 0, err
	}
	counts, err := control.Counts(ctx)
	if err != nil {
		return 0, err
	}
	before, err := fleet.CPUTime(s.pids[0])
	if err != nil {
		return 0, err
	}
	for want := counts.Requests; want < counts.Requests+int64(repeats*groups); {
		if err := control.Repeat(ctx); err != nil {
			return 0, err
		}
		want += int64(groups)
		for {
			now, err := control.Counts(ctx)
			if err != nil {
				return 0, err
			}
			if now.Requests >= want {
				break
			}
			if err := pass(ctx, 5*time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
	after, err := fleet.CPUTime(s.pids[0])
	return after - before, err
}

// profile runs each once more, with profiles of weir while resources change.
func (c *equaling) profile(ctx context.Context) error {
	if err := os.MkdirAll(string(c.profiles), 0o777); err != nil {
		return err
	}
	const span = 10 * time.Second
	for _, dialect := range c.dialects {
		for _, groups := range []int{c.setting.Clients, 1} {
			s, cfg, err := c.start(ctx, dialect, groups)
			if err != nil {
				return err
			}
			err = s.with(func(ctx context.Context) error {
				cfg.Changes, cfg.For = 0, span+aside
				name, taken := fmt.Sprintf("equal.%s.%d", dialect, groups), make(chan error, 1)
				_, err := c.programs.fleet(ctx, cfg, world.Clusters, cue{allThere, func() {
					go func() {
						err := c.profiles.cpu(ctx, s.pprof, name, span)
						taken <- errors.Join(err, c.profiles.heap(ctx, s.pprof, name))
					}()
				}})
				if err != nil {
					return err
				}
				return <-taken
			})
			if err != nil {
				return fmt.Errorf("%s, %d groups, with profiles: %w", dialect, groups, err)
			}
		}
	}
	return nil
}

// markdown writes medians.
func (e *equalled) markdown(w io.Writer) error {
	b := &strings.Builder{}
	set := &e.Setting
	fmt.Fprintf(b, "%s, no TLS. %d clients, `*` of %d clusters of %d bytes, %d changes in a run, each when all have the one before.\n\n",
		e.Machine, set.Clients, set.Resources, set.Bytes, set.Changes)
	b.WriteString("| dialect | runs of each | one group of all: weir's CPU per delivery, us | a group each: the same | of it reading the origin's answer | " +
		"the rest, to one group | at most |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	var dialects []string
	for i := range e.Runs {
		if d := e.Runs[i].Dialect; !slices.Contains(dialects, d) {
			dialects = append(dialects, d)
		}
	}
	for _, d := range dialects {
		one, _ := e.medians(d, 1)
		each, answer := e.medians(d, set.Clients)
		ratio, verdict := 0.0, "not measured" // too few deliveries for the kernel to count their CPU
		if one > 0 {
			if ratio, verdict = (each-answer)/one, "met"; ratio > equalMost {
				verdict = "**not met**"
			}
		}
		fmt.Fprintf(b, "| %s | %d | %.1f | %.1f | %.1f | %.2f | %d: %s |\n", d, e.count(d), one, each, answer, ratio, equalMost, verdict)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// count returns how often a dialect was measured in both ways.
func (e *equalled) count(dialect string) int {
	n := map[int]int{}
	for i := range e.Runs {
		if e.Runs[i].Dialect == dialect {
			n[e.Runs[i].Groups]++
		}
	}
	return min(n[1], n[e.Setting.Clients])
}

func (e *equalled) medians(dialect string, groups int) (delivery, answer float64) {
	var deliveries, answers []float64
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Dialect == dialect && r.Groups == groups {
			deliveries, answers = append(deliveries, r.DeliveryUS), append(answers, r.AnswerUS)
		}
	}
	return median(deliveries), median(answers)
}
