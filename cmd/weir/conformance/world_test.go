package conformance

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run has three cases at a time for each processor, unless -parallel says otherwise: they mostly
// wait. Make conformance sets WEIR_HOPS, and its weirs have the race detector. Make test does not:
// it runs through one weir what CI runs through two and three, and the detector more than doubles
// what a case costs.
func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	}
	dir, err := os.MkdirTemp("", "weir-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs.dir = dir
	if os.Getenv("WEIR_HOPS") == "" {
		return weirtest.Plain(m, "../../..")
	}
	return weirtest.Main(m, "../../..")
}

const (
	cds    = relaytest.ClusterType
	eds    = relaytest.EndpointType
	lds    = relaytest.ListenerType
	rds    = relaytest.RouteType
	opaque = relaytest.OpaqueType
)

// world is an origin, one weir or several in a row, and whatever clients a case opens.
type world struct {
	t      *testing.T
	origin *relaytest.Origin
	config weirtest.Config
	weir   *weirtest.Process // the one that clients talk to
	first  *weirtest.Process // the one that talks to the origin
}

// setup is what a case wants different from the usual: an origin that serves a state over delta,
// and one weir.
type setup struct {
	scripted  bool // the test answers by hand
	sotw      bool // the origin speaks state of the world
	tp2       bool // the origin knows dynamic parameters, and every weir takes it to
	behaviour relaytest.Behaviour
	config    func(weirtest.Config)         // of every weir in the row
	edge      func(weirtest.Config)         // of the one that clients talk to
	origin    func(*relaytest.Origin)       // before weir starts
	stopped   bool                          // the origin is down when weir starts
	options   []grpc.ServerOption           // of the origin's server
	loads     func(grpc.ServerStream) error // load reports at the origin; nil: there are none
}

func start(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{t: t}
	w.origin = relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{
		Serving: !s.scripted, TP2: s.tp2, Behaviour: s.behaviour, Options: s.options, Loads: s.loads, Patience: weirtest.Patience,
	})
	if s.origin != nil {
		s.origin(w.origin)
	}
	address := w.origin.Net().Addr()
	if s.stopped {
		w.origin.Stop()
	}
	dialect := relaytest.Delta
	if s.sotw {
		dialect = relaytest.SotW
	}
	for hop := range hops(t) {
		// one's own name on the way is a loop
		w.config = weirtest.NewConfig(address, dialect).Set("instance", instanceOf(hop))
		if s.tp2 {
			tp2(w.config)
		}
		if s.config != nil {
			s.config(w.config)
		}
		if s.edge != nil && hop == hops(t)-1 {
			s.edge(w.config)
		}
		w.weir = weirtest.Start(t, w.config)
		if w.first == nil {
			w.first = w.weir
		}
		address, dialect = w.weir.Addr, relaytest.Delta
	}
	return w
}

// instanceOf is the name of the weir in that place of the row, the one that talks to the origin
// being the first.
func instanceOf(hop int) string { return fmt.Sprintf("weir-%d", hop+1) }

// client is a connected client with an open stream; node may be nil for the usual one.
func (w *world) client(dialect relaytest.Dialect) *relaytest.Client {
	w.t.Helper()
	return w.clientWith(relaytest.ClientConfig{Dialect: dialect})
}

func (w *world) clientWith(cfg relaytest.ClientConfig) *relaytest.Client {
	w.t.Helper()
	c := newClient(w.t, weirtest.Connect(w.t, w.weir.Addr), cfg)
	c.Open(relaytest.Node("client-1", "edge"))
	return c
}

// newClient is a client without a stream, as patient as everything here.
func newClient(t *testing.T, conn *grpc.ClientConn, cfg relaytest.ClientConfig) *relaytest.Client {
	t.Helper()
	cfg.Patience = weirtest.Patience
	return relaytest.NewClient(t, conn, cfg)
}

// quiet is how long nothing has to come for a case to believe that nothing will: well above what
// weir takes for anything it does at once, on a loaded machine.
const quiet = 400 * time.Millisecond
