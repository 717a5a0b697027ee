package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestSentInResponseOrder: a client that named resources is sent their changes in the order of the
// response, bodies first: origins know why they write one thing before another.
func TestSentInResponseOrder(t *testing.T) {
	r := newRig(t, Config{})
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("n%02d", i))
	}
	s := r.sub(xds.EndpointType, true, all...)
	r.open()
	r.apply(made(xds.EndpointType, "0", nil, all...))
	s.Take(zero)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	changed, removed := all[:60], all[60:]
	r.apply(made(xds.EndpointType, "1", removed, changed...))
	a := s.Take(zero)
	var told []string
	for _, v := range a.Variants {
		told = append(told, v.Name)
	}
	if !slices.Equal(told, changed) || !slices.Equal(a.Removed, removed) {
		t.Errorf("told %q and removals of %q, want %q and %q", told, a.Removed, changed, removed)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}
