package fleet

import (
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
	// NameFormat formats a resource's number as its name. Empty: that of package world.
	NameFormat string
	// NodeCluster is the clients' node.cluster. With Groups > 1 there are as many clusters,
	// numbered, and clients take them in turn.
	NodeCluster string
	Groups      int
	// ConnectRate is how many clients connect per second; 0: all at once.
	ConnectRate int
	// Window is the flow-control window of each stream and connection, in bytes. 0: 16 MiB, as in
	// Envoy.
	Window int
	// Cold omits the one client that otherwise connects before all others. So the storm meets a
	// server without resources.
	Cold bool
	// Away is how long all clients are gone after the storm, before they come back at once, on new
	// connections and with the TLS sessions that they have (Left). 0: they stay.
	Away time.Duration
	// Idle is the pause between the storm and reading the memory.
	Idle time.Duration
	// Rest is how long all clients stay after the measurement, before the memory is read once more.
	// CPU is not counted then, so the server may be made to collect its garbage.
	Rest time.Duration

	// Deaf, Mute and Slow are the numbers of bad clients beside the others: they read nothing once
	// they have subscribed, acknowledge nothing, or read SlowRate bytes a second (0: 10,000).
	Deaf, Mute, Slow, SlowRate int

	// Control is the address of the control endpoint of the plane with the resources. Empty:
	// changes are only observed, for For.
	Control string
	// Rate is how many resources change per second, for For, whether or not the changes arrive
	// (open loop). 0: each change waits until all clients have the one before (closed loop),
	// Changes times, or for For.
	Rate, Changes int
	// Batch is how many resources change in one transaction of the closed loop. 0: one.
	Batch int
	For   time.Duration
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
	refuse(c.Away < 0 || c.Away > MaxFor, "away: %v is not between 0s and %v", c.Away, MaxFor)
	refuse(c.Away > 0 && c.Deaf+c.Mute+c.Slow > 0, "away: bad clients do not go")
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
