package fleet

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Dialect is delta or state of the world.
type Dialect string

// The dialects.
const (
	Delta Dialect = "delta"
	SotW  Dialect = "sotw"
)

// Config is what a fleet does. Nothing of it may be changed once it runs.
type Config struct {
	// Server is the address of the server that is measured, host:port.
	Server  string
	Dialect Dialect
	// TypeURL is the only type that is asked for, on the aggregated service.
	TypeURL string
	// Clients is how many well-behaved ones there are; PerConnection how many of them share a
	// connection (0: one).
	Clients, PerConnection int
	// Names is for how many names a client asks; 0: for everything. Client i has those of Names
	// resources from i*Names on, in a circle.
	Names int
	// Resources is how many there are at the server. It may be 0, unknown, for clients that ask for
	// everything: their first state is then complete with the first response.
	Resources int
	// NameFormat makes a number a name. Empty: that of package world.
	NameFormat string
	// NodeCluster is the clients' node.cluster. With several Groups (0: one) there are as many of
	// them, in turn, with a number behind it.
	NodeCluster string
	Groups      int
	// ConnectRate is how many clients come in a second; 0: all at once.
	ConnectRate int
	// Window is what each stream and connection may be sent ahead, in bytes. 0: 16 MiB, as Envoy
	// has it.
	Window int
	// Cold leaves out the one client that comes before all others, so that the storm meets a server
	// that has nothing yet.
	Cold bool
	// Idle is how long nothing happens after the storm, before memory is looked at.
	Idle time.Duration
	// Rest is how long all clients stay when everything was measured, before memory is looked at
	// once more: CPU is not counted then, and whoever makes the server collect its garbage does no
	// harm.
	Rest time.Duration

	// Deaf, Mute and Slow clients come beside the others: they read nothing once they have
	// subscribed, acknowledge nothing, or read SlowRate bytes a second (0: 10,000).
	Deaf, Mute, Slow, SlowRate int

	// Control is the address of the control endpoint of the plane that has the resources. Empty:
	// changes are only observed, for For.
	Control string
	// Rate is how many resources change a second, for For, whatever becomes of the changes (open
	// loop). 0: each change waits until all clients have the one before (closed loop), Changes
	// times, or for For.
	Rate, Changes int
	// Batch is how many resources change in one transaction of the closed loop. 0: one.
	Batch int
	For   time.Duration
	// Patience is how long all clients may take to have their first state, and a change to reach
	// them. 0: a minute.
	Patience time.Duration

	// PIDs are the processes whose CPU time and memory are reported.
	PIDs []int
	// Say is told what goes on, a line each time; nil: nobody is.
	Say func(line string)
}

// The bounds of a run.
const (
	MaxClients = 100_000
	MaxNames   = 100_000
	MaxFor     = world.MaxFor
)

// complete puts defaults where nothing is said, and finds fault with the rest.
func (c *Config) complete() error {
	setDefault(&c.PerConnection, 1)
	setDefault(&c.Batch, 1)
	setDefault(&c.Groups, 1)
	setDefault(&c.Window, 16<<20)
	setDefault(&c.SlowRate, 10_000)
	setDefault(&c.Patience, time.Minute)
	if c.NameFormat == "" {
		c.NameFormat = world.NameFormat
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	between := func(field string, n, least, most int) {
		refuse(n < least || n > most, "%s: %d is not between %d and %d", field, n, least, most)
	}
	refuse(c.Server == "", "server: an address is needed")
	refuse(c.Dialect != Delta && c.Dialect != SotW, "dialect: %q is neither delta nor sotw", c.Dialect)
	refuse(c.TypeURL == "", "type: a type URL is needed")
	between("clients", c.Clients, 1, MaxClients)
	between("per-connection", c.PerConnection, 1, MaxClients)
	between("names", c.Names, 0, MaxNames)
	between("resources", c.Resources, 0, world.MaxResources)
	refuse(c.Names > 0 && c.Names > c.Resources, "names: %d are more than the %d resources", c.Names, c.Resources)
	refuse(strings.Count(c.NameFormat, "%") != 1 || strings.Contains(fmt.Sprintf(c.NameFormat, 1), "%!"),
		"name-format: %q has not one verb for a number, like %%06d", c.NameFormat)
	between("groups", c.Groups, 1, MaxClients)
	between("connect-rate", c.ConnectRate, 0, math.MaxInt32)
	between("window", c.Window, smallWindow, math.MaxInt32)
	between("deaf, mute, slow", c.Deaf+c.Mute+c.Slow, 0, MaxClients)
	between("deaf", c.Deaf, 0, MaxClients)
	between("mute", c.Mute, 0, MaxClients)
	between("slow", c.Slow, 0, MaxClients)
	between("slow-rate", c.SlowRate, 1, math.MaxInt32)
	between("rate", c.Rate, 0, world.MaxRate)
	between("changes", c.Changes, 0, maxChanges)
	between("batch", c.Batch, 1, max(c.Resources, 1))
	refuse(c.Names > 0 && c.Batch > world.NamesMax, "batch: more than %d resources with names", world.NamesMax)
	refuse(c.For < 0 || c.For > MaxFor, "for: %v is not between 0s and %v", c.For, MaxFor)
	refuse(c.Idle < 0 || c.Idle > MaxFor, "idle: %v is not between 0s and %v", c.Idle, MaxFor)
	refuse(c.Rest < 0 || c.Rest > MaxFor, "rest: %v is not between 0s and %v", c.Rest, MaxFor)
	refuse(c.Patience < 0 || c.Patience > MaxFor, "patience: %v is not between 0s and %v", c.Patience, MaxFor)
	refuse(c.Control == "" && (c.Rate > 0 || c.Changes > 0), "control: an address is needed to have something changed")
	refuse(c.Rate > 0 && (c.Changes > 0 || c.For == 0), "rate: goes with a time, and not with a number of changes")
	refuse(c.Changes > 0 && c.For > 0, "changes: goes without a time")
	refuse(len(c.PIDs) > 16, "server-pid: %d are more than 16", len(c.PIDs))
	return errors.Join(errs...)
}

func setDefault[T int | time.Duration](field *T, v T) {
	if *field == 0 {
		*field = v
	}
}

// wanted is how many clients want the i-th resource.
func (c *Config) wanted(i int) int {
	if c.Names == 0 {
		return c.Clients
	}
	// Clients have their names in a row, so together they go around the circle some whole times and
	// a part.
	whole, part := c.Clients*c.Names/c.Resources, c.Clients*c.Names%c.Resources
	if i < part {
		whole++
	}
	return whole
}
