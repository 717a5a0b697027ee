package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Dialect is delta or SotW.
type Dialect string

// The dialects.
const (
	Delta Dialect = "delta"
	SotW  Dialect = "sotw"
)

// Config configures a fleet. It must not be changed after New.
type Config struct {
	// Server is the address of the measured server, host:port. There may be several, with commas:
	// connections take them in turn.
	Server  string
	Dialect Dialect
	// TypeURL is the only type that is subscribed, on the aggregated service.
	TypeURL string
	// Clients is the number of well-behaved clients; PerConnection is how many share a connection
	// (0: one).
	Clients, PerConnection int
	// Names is the number of names of each client; 0: everything. Client i has Names resources from
	// i*Names on, modulo Resources.
	Names int
	// Resources is the number of resources at the server. It may be 0, unknown, if clients ask for
	// everything: then the first response is their complete first state.
	Resources int
	// Groups is how many node.clusters there are; clients take them in turn. 0: one.
	Groups int
	// ConnectRate is how many clients connect per second; 0: all at once.
	ConnectRate int
	// Away is called when all clients have gone after the storm. When it returns, with the
	// processes that are measured from then on, all come back at once, on new connections and with
	// the TLS sessions that they have. nil: they stay.
	Away func(context.Context) (pids []int, err error)
	// Idle is the pause between the storm and reading the memory.
	Idle time.Duration
	// Rest is how long all clients stay after the measurement, before the memory is read once more.
	// CPU is not counted then.
	Rest time.Duration
	// Heap is the address of the /debug/pprof/heap of the first of PIDs, which is made to collect
	// its garbage before the rest. Empty: it is not.
	Heap string

	// Deaf, Mute and Slow are the numbers of bad clients beside the others: they read nothing once
	// they have subscribed, acknowledge nothing, or read 10 KB a second.
	Deaf, Mute, Slow int

	// Control is the address of the control endpoint of the plane with the resources. Empty:
	// changes are only observed, for For.
	Control string
	// Rate is how many resources change per second, for For, whether or not the changes arrive
	// (open loop). 0: each change waits until all clients have the one before (closed loop),
	// Changes times, or for For.
	Rate, Changes int
	For           time.Duration
	// Patience is how long all clients may take to have their first state, and a change to reach
	// them. 0: a minute.
	Patience time.Duration

	// TLS has certificates for both sides; the zero value is plain text.
	TLS mtls.Files
	// PIDs are the processes whose CPU time and memory are reported.
	PIDs []int
	// Say is called with a line about each step; nil: not called.
	Say func(line string)
}

// The bounds of a run.
const (
	MaxClients = 100_000
	MaxNames   = 100_000
	MaxFor     = world.MaxFor
)

// servers are the addresses in Server.
func (c *Config) servers() []string { return strings.Split(c.Server, ",") }

// complete sets the defaults, and returns all problems.
func (c *Config) complete() error {
	c.PerConnection = cmp.Or(c.PerConnection, 1)
	c.Groups = cmp.Or(c.Groups, 1)
	c.Patience = cmp.Or(c.Patience, time.Minute)
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
	between("groups", c.Groups, 1, MaxClients)
	between("connect-rate", c.ConnectRate, 0, math.MaxInt32)
	between("deaf, mute, slow", c.Deaf+c.Mute+c.Slow, 0, MaxClients)
	between("deaf", c.Deaf, 0, MaxClients)
	between("mute", c.Mute, 0, MaxClients)
	between("slow", c.Slow, 0, MaxClients)
	between("rate", c.Rate, 0, world.MaxRate)
	between("changes", c.Changes, 0, maxChanges)
	refuse(c.For < 0 || c.For > MaxFor, "for: %v is not between 0s and %v", c.For, MaxFor)
	refuse(c.Idle < 0 || c.Idle > MaxFor, "idle: %v is not between 0s and %v", c.Idle, MaxFor)
	refuse(c.Away != nil && c.Deaf+c.Mute+c.Slow > 0, "away: bad clients do not go")
	refuse(c.Rest < 0 || c.Rest > MaxFor, "rest: %v is not between 0s and %v", c.Rest, MaxFor)
	refuse(c.Patience < 0 || c.Patience > MaxFor, "patience: %v is not between 0s and %v", c.Patience, MaxFor)
	refuse(c.Control == "" && (c.Rate > 0 || c.Changes > 0), "control: an address is needed to have something changed")
	refuse(c.Rate > 0 && (c.Changes > 0 || c.For == 0), "rate: goes with a time, and not with a number of changes")
	refuse(c.Changes > 0 && c.For > 0, "changes: goes without a time")
	refuse(len(c.PIDs) > 16, "server-pid: %d are more than 16", len(c.PIDs))
	return errors.Join(errs...)
}

// wanted returns how many clients want the i-th resource.
func (c *Config) wanted(i int) int {
	if c.Names == 0 {
		return c.Clients
	}
	// Names of clients follow each other, so together they go around all resources some whole times
	// and a part.
	whole, part := c.Clients*c.Names/c.Resources, c.Clients*c.Names%c.Resources
	if i < part {
		whole++
	}
	return whole
}
