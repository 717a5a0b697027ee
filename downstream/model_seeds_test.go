package downstream

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestModelSeeds plays what TestModel once stopped at, each world up to the rest after that step.
func TestModelSeeds(t *testing.T) {
	for _, c := range []struct {
		seed  uint64
		world int // among those of TestModel
		steps int
		why   string
	}{
		{6021, 3, 2400, "a route that is held goes as of the name that was dropped meanwhile, not as of the later answer to `*`"},
		{208, 3, 1200, "a Listener does not wait for the verdict on a removal of a Cluster that left after the Listener came"},
		{203, 2, 1280, "a Listener that went and came back is held from when it went: nothing of that was told"},
		{203, 7, 1520, "a client asks for `*` while an answer by name is held, and leaves it before the list"},
		{9296, 6, 640, "removals that waited are no answer to the request that dropped a name under `*` meanwhile"},
		{9749, 7, 160, "a response by name is on its way when the client asks for `*`, and is no list"},
		{9923, 1, 2160, "a route that does not exist is stated so again by a new upstream stream"},
		{9968, 2, 2080, "a lane is opened anew while a name of a client that came back is silent"},
		{9236, 1, 2080, "a client of `*` drops the name of a cluster that had another body by that name"},
		{9900, 2, 1520, "a client of `*` drops a name, and subscribes to it again while the answer is held"},
		{1796062709309254160, 5, 800, "that a body which had retired is to be sent is found while a list is looked at"},
	} {
		t.Run(fmt.Sprintf("%d in world %d", c.seed, c.world), func(t *testing.T) {
			t.Log(c.why)
			newModelWorld(t, c.seed, c.world).play(c.steps)
		})
	}
}

// newModelWorld is one of the worlds that TestModel plays with a seed.
func newModelWorld(t *testing.T, seed uint64, world int) *model {
	return newModel(t, rand.New(rand.NewPCG(seed, uint64(world))), world%4 >= 2, world%2 == 0, world >= 4)
}
