package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"
	"go.uber.org/zap"
)

// Config of an Origin. It is not modified after New.
type Config struct {
	// Name is the origin's name in the config file, for logs and metrics. Required.
	Name string
	// Path is a file, or a directory whose files are used together. It must exist (FILE-4).
	// Required.
	Path string
	// Fallback: the files are the fallback of an origin of another kind. No lane is served. The
	// table is given the content once all files were valid at one time.
	Fallback bool
	// NameBytes is the longest resource name accepted, in bytes (limits.name_bytes). 0: no limit.
	NameBytes int
	// TP2: the table asks this origin with parameters (tp2). Used for warnings only.
	TP2 bool
	// NameFields say where an unwrapped resource has its name (RELAY-14).
	NameFields xds.NameFields
	// Types are the messages that YAML, JSON and text may contain. Nil: those that are linked in.
	Types *descriptors.Types
	// MaxBytes bounds a file, and what its YAML aliases expand to, in bytes. Default 64 MiB.
	MaxBytes int
	// Debounce is how long a directory must be without events before it is read. Default 100 ms.
	Debounce time.Duration
	// Poll is the interval between checks of the files without an event, because network file
	// systems and chains of links lose events. It is also how long a file written in place must not
	// have changed before such a check reads it. Default 10 s.
	Poll time.Duration
	// Log gets errors and changes of state. Nil: no log.
	Log *zap.Logger
	// Metrics counts events. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// Origin answers what the table asks of one origin from files.
type Origin struct {
	// Set once by New.
	cfg     Config
	log     *zap.Logger
	metrics *metrics.Origin
	table   *relay.Origin
	server  uint8 // number of the path in the table

	// Owned by New, then by Run.
	source *source
	warned map[string]bool // logged warnings that still hold
	given  *content        // what the table was given last as the fallback

	mu      sync.Mutex // guards what follows; held to swap values only
	current *content
	changed chan struct{} // closed when current is replaced
	status  Status
	refusal time.Time // when it was logged last that the files have more than there is room for
}

// refusalEvery is the interval between two lines about what the files have beyond the origin's
// limits: each group may be refused it, again and again.
const refusalEvery = time.Minute

func (cfg Config) withDefaults() Config {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 64<<20)
	cfg.Debounce = cmp.Or(cfg.Debounce, 100*time.Millisecond)
	cfg.Poll = cmp.Or(cfg.Poll, 10*time.Second)
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	return cfg
}

// New checks the config and loads the files. A missing path is an error (FILE-4). A broken file is
// not: it is logged, counted, and shown by Status.
func New(cfg Config, table *relay.Origin) (*Origin, error) {
	cfg = cfg.withDefaults()
	var errs []error
	if table == nil {
		errs = append(errs, errors.New("the table has no such origin"))
	}
	src, err := newSource(cfg)
	if err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("origin %s: %w", cfg.Name, err)
	}
	o := &Origin{
		cfg: cfg, log: cfg.Log.With(zap.String("origin", cfg.Name)), metrics: cfg.Metrics.Origin(cfg.Name), table: table,
		source: src, current: &content{}, changed: make(chan struct{}),
	}
	if !cfg.Fallback {
		o.server = table.Server("files " + cfg.Path)
	}
	o.load(nil)
	return o, nil
}

// Run serves the table until ctx ends. It watches the path, and runs the lanes that the table
// wants. It returns nil once all its goroutines have ended.
func (o *Origin) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	w := o.watch()
	defer w.close()
	poll := time.NewTicker(o.cfg.Poll)
	defer poll.Stop()
	o.load(nil) // changes between New and the watch
	wake := o.table.Wake()
	if o.cfg.Fallback {
		wake = nil
		defer o.table.SetFallback(time.Now(), nil)
	}
	for {
		o.give()
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			for _, a := range o.table.TakeAlarms() {
				o.log.Warn(a.String(), zap.String("group", a.Group), zap.String("type_url", a.TypeURL), zap.Time("until", a.Until))
			}
			for _, rl := range o.table.TakeLanes() {
				l := &lane{origin: o, lane: rl}
				lanes.Go(func() { l.run(ctx) })
			}
		case e, ok := <-w.events:
			w.note(e, ok)
		case err, ok := <-w.errors:
			w.failed(err, ok)
		case <-w.due:
			o.load(w.take())
		case <-poll.C:
			w.renew()
			o.load(w.take())
		}
	}
}

// give gives the table the content as the fallback, if it has changed.
func (o *Origin) give() {
	c, _ := o.snapshot()
	if !o.cfg.Fallback || !c.whole || c == o.given {
		return
	}
	o.given = c
	f := o.table.NewFallback("files "+o.cfg.Path, func(yield func(string, *xds.Resource) bool) {
		for typeURL, s := range c.types {
			for _, entries := range s.byName {
				for _, e := range entries {
					if !yield(typeURL, &e.Resource) {
						return
					}
				}
			}
		}
	})
	o.table.SetFallback(time.Now(), f)
}

// load checks the files, of which those in t had events, and puts changes into force.
func (o *Origin) load(t touched) {
	now := time.Now()
	p := o.source.look(now, t)
	if !p.changed() {
		return
	}
	next := merge(o.current, o.source)
	var err error
	if problems := append(p.problems, next.problems...); len(problems) > 0 {
		err = problems
	}
	o.metrics.FileLoad(err)
	o.metrics.Attempt()
	o.metrics.Bytes(metrics.FromOrigin, p.bytes)
	if err != nil {
		o.metrics.Failure("file")
	}
	o.report(next)

	o.mu.Lock()
	defer o.mu.Unlock()
	status := statusOf(o.source, next)
	status.since(&o.status, now)
	o.status = status
	o.current = next
	close(o.changed)
	o.changed = make(chan struct{})
}

// refused counts and logs that the table did not take all of the files, since the origin would fill
// more than it may. It is given the rest when there is room (relay: admit.go). It locks the origin.
func (o *Origin) refused(now time.Time, why *xds.RejectError) {
	o.cfg.Metrics.LimitRejection(why.Limit)
	o.metrics.Type(why.TypeURL).Rejected(len(why.Reasons))
	o.mu.Lock()
	say := now.Sub(o.refusal) >= refusalEvery
	if say {
		o.refusal = now
	}
	o.mu.Unlock()
	if say {
		o.log.Warn("rejected a part of the files", zap.Error(why))
	}
}

// snapshot returns the content in force, and a channel that is closed when it is replaced.
func (o *Origin) snapshot() (*content, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, o.changed
}

// report logs each error once, and when it is over.
func (o *Origin) report(c *content) {
	refused := 0
	for _, f := range o.source.all() {
		text := c.errorOf(f)
		if text != "" {
			refused++
		}
		switch text {
		case f.logged:
			continue
		case "":
			o.log.Info("a file is valid again", zap.String("file", f.path))
		default:
			o.log.Error("a file has errors; its last content stays in force",
				zap.String("file", f.path), zap.String("error", text))
		}
		f.logged = text
	}
	if text := o.source.errorText(); text != o.source.logged {
		if text != "" {
			o.log.Error("cannot list the files; their last content stays in force", zap.String("error", text))
		} else {
			o.log.Info("can list the files again", zap.String("path", o.cfg.Path))
		}
		o.source.logged = text
	}
	warned := map[string]bool{}
	for _, w := range c.remarks(o.cfg) {
		text := w.Error()
		if warned[text] = true; !o.warned[text] {
			o.log.Warn("the files are valid, with a warning", zap.String("warning", text))
		}
	}
	o.warned = warned
	if refused > 0 {
		o.log.Info("files loaded, except those with errors", zap.String("path", o.cfg.Path), zap.Int("resources", c.size),
			zap.Int("files_refused", refused))
		return
	}
	o.log.Info("files loaded", zap.String("path", o.cfg.Path), zap.Int("resources", c.size), zap.Bool("complete", c.complete))
}
