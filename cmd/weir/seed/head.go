package seed

import (
	"encoding/json"
	"errors"
	"fmt"
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
	_, err = xds.JSONBound{Depth: headLevels, Memory: headMemory}.Check(text)
	if err == nil {
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

// Error implements error.
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

// Error implements error.
func (e *ahead) Error() string {
	return fmt.Sprintf("it speaks of %s, which has not come; are the clocks right?", e.at.UTC().Format(time.RFC3339))
}

// readable returns why the state cannot be read.
func (h *Head) readable(keys *snapshot.Keys) error {
	switch {
	case h.Format != snapshot.Format:
		return fmt.Errorf("it is of another version: its format is %d, and this build reads %d", h.Format, snapshot.Format)
	case h.Key != "" && !keys.Has(h.Key) && keys == nil:
		return fmt.Errorf("its state is sealed with the key %s, and cache.snapshot.key_file is not set", h.Key)
	case h.Key != "" && !keys.Has(h.Key):
		return fmt.Errorf("its state is sealed with the key %s, which is not in cache.snapshot.key_file", h.Key)
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
