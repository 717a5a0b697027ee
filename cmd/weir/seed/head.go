package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	// maxHead bounds a head, in bytes: an order and the memory of a gate for each of 20,000 groups.
	maxHead = 8 << 20
	// headMemory bounds what a head takes decoded, in bytes: that of 20,000 groups takes 50 MB.
	// headLevels bounds how deeply it is nested.
	headMemory, headLevels = 64 << 20, 16
	// maxAhead is how far ahead of ours a sibling's clock may be.
	maxAhead = time.Minute
	// step is how far apart two times may be and still count as equally new: clocks differ, and
	// siblings notice the loss of an origin one after the other.
	step = time.Minute
)

var headBound = xds.JSONBound{Depth: headLevels, Memory: headMemory}

// Head is what a process says of itself.
type Head struct {
	// Process is random, so that a process knows itself among its siblings.
	Process    string `json:"process"`
	Deployment string `json:"deployment"`
	// Format is the major version of the state's format.
	Format int `json:"format"`
	// Key is what the key is called that the state is sealed with; empty: it is in plain text.
	Key string `json:"key,omitempty"`
	// Origins are all that are configured, whether or not anything is held of them.
	Origins []Origin `json:"origins"`
}

// Origin is what a process says of an origin.
type Origin struct {
	Name string `json:"name"`
	// Vouched is when the origin last vouched for what is held.
	Vouched time.Time `json:"vouched,omitzero"`
	// Resources is how many are held.
	Resources int `json:"resources"`
	// Frozen is since when an operator keeps clients at what they have; zero: it is not frozen.
	Frozen time.Time `json:"frozen,omitzero"`
	// FrozenChanged is when an operator last froze or unfroze it; zero: never.
	FrozenChanged time.Time `json:"frozen_changed,omitzero"`
	// Rollbacks are the last orders of operators to go back to an earlier state, at most one for
	// each group, and Gates is what the canary gates remember. Older replicas say nothing of them.
	Rollbacks []snapshot.Order      `json:"rollbacks,omitempty"`
	Gates     []snapshot.GateMemory `json:"gates,omitempty"`
}

// times are when something was said to happen.
func (o *Origin) times() []time.Time {
	x := snapshot.Origin{Vouched: o.Vouched, Frozen: o.Frozen, FrozenChanged: o.FrozenChanged, Rollbacks: o.Rollbacks, Gates: o.Gates}
	return x.Times()
}

// ParseHead reads a head. Fields that a later version adds are skipped.
func ParseHead(text []byte) (h Head, err error) {
	if _, err = headBound.Check(text); err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return Head{}, fmt.Errorf("its head cannot be read: %w", err)
	}
	if h.Process == "" {
		return Head{}, errors.New("its head has no process: is this the port of cache.seed.listen?")
	}
	for i := range h.Origins {
		if h.Origins[i].Resources < 0 {
			return Head{}, fmt.Errorf("it says that it has %d resources of the origin %q", h.Origins[i].Resources, h.Origins[i].Name)
		}
	}
	return h, nil
}

// believe returns why nothing that the head says may be used.
func (h *Head) believe(deployment string, now time.Time) error {
	if h.Deployment != deployment {
		return &foreign{h.Deployment, deployment}
	}
	for i := range h.Origins {
		o := &h.Origins[i]
		for _, at := range o.times() {
			if err := notAhead(at, now); err != nil {
				return fmt.Errorf("origin %q: %w", o.Name, err)
			}
		}
	}
	return nil
}

// foreign says that something is of another deployment.
type foreign struct{ its, ours string }

func (e *foreign) Error() string {
	return fmt.Sprintf("it is of the deployment %q, and this is %q", e.its, e.ours)
}

func notAhead(at, now time.Time) error {
	if at.After(now.Add(maxAhead)) {
		return &ahead{at}
	}
	return nil
}

// ahead says that a time has not come.
type ahead struct{ at time.Time }

func (e *ahead) Error() string {
	return fmt.Sprintf("its time %s is in the future; are the clocks right?", e.at.UTC().Format(time.RFC3339))
}

// readable returns why the state cannot be read.
func (h *Head) readable(keys *snapshot.Keys) error {
	switch {
	case h.Format != snapshot.Format:
		return fmt.Errorf("it is of another version: its format is %d, and this build reads %d", h.Format, snapshot.Format)
	case h.Key != "" && !keys.Has(h.Key) && keys == nil:
		return fmt.Errorf("its state is sealed with the key %s, and cache.snapshot.key_file is not set", h.Key)
	case h.Key != "" && !keys.Has(h.Key):
		return fmt.Errorf("its state is sealed with the key %s, and cache.snapshot.key_file does not have it", h.Key)
	}
	return nil
}

// holds returns how much of the configured origins is held, and when the one that was lost longest
// ago last vouched for it. Origins of which nothing is held count as lost for ever.
func (h *Head) holds(origins []string) (resources int, vouched []time.Time) {
	of := make(map[string]*Origin, len(h.Origins))
	for i := range h.Origins {
		of[h.Origins[i].Name] = &h.Origins[i]
	}
	for _, name := range origins {
		at := time.Time{}
		if o := of[name]; o != nil && o.Resources > 0 {
			resources += min(o.Resources, maxCount)
			at = o.Vouched
		}
		vouched = append(vouched, at)
	}
	return resources, vouched
}

// maxCount bounds a number of resources, so that no sum overflows.
const maxCount = 1 << 30

// Acted is when an operator last froze or unfroze the origin, as far as that is known.
func (o *Origin) Acted() time.Time {
	if o.FrozenChanged.IsZero() {
		return o.Frozen
	}
	return o.FrozenChanged
}

// maxHeads bounds what the heads of all siblings take together, in bytes of memory: all of them are
// asked at once, and each head may have what headMemory says.
const maxHeads = 128 << 20

// budget is what may still be taken.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := &budget{}
	b.left.Store(bytes)
	return b
}

// take takes so many bytes, before they are needed.
func (b *budget) take(bytes int) error {
	if b.left.Add(-int64(bytes)) < 0 {
		return fmt.Errorf("the heads of all siblings need more than %d bytes", maxHeads)
	}
	return nil
}

// reader takes what is read from it.
type reader struct {
	from   io.Reader
	budget *budget
}

// Read implements io.Reader.
func (r reader) Read(b []byte) (n int, err error) {
	n, err = r.from.Read(b)
	if taken := r.budget.take(n); taken != nil {
		return 0, taken
	}
	return n, err
}

const (
	standingPath = "/seed/standing"
	// maxStanding bounds a standing, in bytes. Its texts are those of one headline.
	maxStanding = 16 << 10
)

// Standing is how a process is doing, in a few words: siblings show it on their admin pages.
type Standing struct {
	Process    string    `json:"process"`
	Deployment string    `json:"deployment"`
	Host       string    `json:"host"` // the name of the machine or pod
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	// State and Sentence are those of the headline.
	State     string  `json:"state"`
	Sentence  string  `json:"sentence"`
	Clients   int     `json:"clients"`
	InSync    float64 `json:"in_sync_percent"`
	Rejecting int     `json:"rejecting"`
	// AdminPort is the port of the admin page; 0: it is a Unix socket. AdminTLS: it needs https.
	// AdminLocal: it is on loopback.
	AdminPort  uint16 `json:"admin_port,omitempty"`
	AdminTLS   bool   `json:"admin_tls,omitempty"`
	AdminLocal bool   `json:"admin_local,omitempty"`
}

// Stands is what a sibling says of how it is doing, or why it says nothing.
type Stands struct {
	Address  string
	Standing Standing
	Err      error
}

func (s *Server) standing(w http.ResponseWriter, _ *http.Request) { respond(w, s.cfg.Standing()) }

// Standings asks all siblings how they are doing, and returns when all have answered or ctx has
// ended. They are in the order of addresses, without this process.
func (s *Search) Standings(ctx context.Context) []Stands {
	addresses := s.addresses(ctx)
	slices.Sort(addresses)
	all := make([]Stands, len(addresses))
	var asked sync.WaitGroup
	for i, address := range addresses {
		asked.Go(func() {
			all[i].Address = address
			all[i].Standing, all[i].Err = s.standing(ctx, address)
		})
	}
	asked.Wait()
	return slices.DeleteFunc(all, func(a Stands) bool { return a.Err == nil && a.Standing.Process == s.cfg.Process })
}

// standing asks one sibling.
func (s *Search) standing(ctx context.Context, address string) (got Standing, err error) {
	text, err := s.read(ctx, address, standingPath, "answer", maxStanding, newBudget(maxStanding+1))
	switch wrapped, ok := errors.AsType[*url.Error](err); {
	case errors.Is(err, errUnknown):
		return got, errors.New("it runs an earlier version of weir: that reports no state")
	case ok:
		return got, wrapped.Err // who reads it knows what was asked
	case err != nil:
		return got, err
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return got, fmt.Errorf("its answer is not understood: %w", err)
	}
	if got.Deployment != s.cfg.Deployment {
		return Standing{}, fmt.Errorf("it is of the deployment %q", got.Deployment)
	}
	if !strings.Contains(" good warn bad ", " "+got.State+" ") {
		got.State = "bad" // a page has no other colours
	}
	return got, nil
}
