package relay

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Traces draws updates of origins that are to be followed to the clients. Who follows them asks for
// those that were drawn, and ends each. What is not drawn costs a random number for each response.
type Traces struct {
	// Set once by NewTraces.
	sample float64
	most   int
	wake   chan struct{}

	open atomic.Int32 // drawn, and not ended

	mu    sync.Mutex // guards drawn; a leaf
	drawn []*Traced  // since the last Drawn
}

// Traced is an update that was drawn: a response, or a share of one, that changed something. It
// never changes.
type Traced struct {
	Source *Group
	// TypeURL is the type, and Version the response's.
	TypeURL, Version string
	Came             time.Time
	// Revision is that of the changes.
	Revision uint64
	// Resources and Removed are how many the response has, and Changed how many of them were new,
	// changed or gone.
	Resources, Removed, Changed int
}

// NewTraces makes Traces that draw this part of the updates, from 0 to 1, while fewer than so many
// are open.
func NewTraces(sample float64, most int) *Traces {
	return &Traces{sample: sample, most: most, wake: make(chan struct{}, 1)}
}

// Open reports whether an update that was drawn is not ended. It takes no lock.
func (t *Traces) Open() bool { return t.open.Load() > 0 }

// Wake is signalled when an update was drawn.
func (t *Traces) Wake() <-chan struct{} { return t.wake }

// Drawn returns what was drawn since the last call.
func (t *Traces) Drawn() []*Traced {
	t.mu.Lock()
	defer t.mu.Unlock()
	drawn := t.drawn
	t.drawn = nil
	return drawn
}

// End lets another update be drawn in place of one that is ended.
func (t *Traces) End() { t.open.Add(-1) }

// draws decides whether an update is followed; nil: none is. It is to be added then.
func (t *Traces) draws() bool {
	if t == nil || t.sample < 1 && rand.Float64() >= t.sample { //nolint:gosec // it is no secret
		return false
	}
	if int(t.open.Add(1)) > t.most {
		t.open.Add(-1)
		return false
	}
	return true
}

// add opens an update. It locks the traces.
func (t *Traces) add(x *Traced) {
	t.mu.Lock()
	t.drawn = append(t.drawn, x)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
