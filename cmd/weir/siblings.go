package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/seed"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

const (
	// seedBytes bounds the state of a sibling, if nothing bounds the own snapshot.
	seedBytes = 4 << 30
	// headsWait bounds how long a process that has a snapshot waits for what siblings say of
	// freezes.
	headsWait = 2 * time.Second
)

// siblings are the other replicas, which give each other what they hold (cache.seed).
type siblings struct {
	// Set once by openSiblings.
	id      string   // of this process, random
	secured *secured // nil: plain text
	port    *web     // nil: nobody is answered
	loaded  chan struct{}

	settled atomic.Bool // what this process starts with is in the table
}

// openSiblings opens the port for siblings, and reads what they are known by.
func (p *process) openSiblings(ctx context.Context) error {
	s, cfg := &p.siblings, p.config()
	c := &cfg.Cache.Seed
	s.loaded = make(chan struct{})
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	s.id = hex.EncodeToString(id[:])
	if c.Listen == "" && len(c.Peers) == 0 {
		return nil
	}
	var err error
	if s.secured, err = p.tls.siblings(cfg); err != nil {
		return err
	}
	if err := s.secured.ready(ctx); err != nil {
		return cfg.Problemf("cache.seed.tls.spiffe", "%v", err)
	}
	if c.Listen == "" {
		return nil
	}
	l, err := listen(ctx, c.Listen, 0)
	if err != nil {
		return cfg.Problemf("cache.seed.listen", "cannot listen on %s: %v", c.Listen, err)
	}
	s.port = newWeb("seed", l, seedPlaces, s.secured.server(), p.logger(levels.Seed))
	s.port.server.Protocols.SetHTTP2(false)
	s.port.server.Protocols.SetUnencryptedHTTP2(false)
	s.port.server.Handler = seed.NewServer(seed.ServerConfig{
		Loaded: s.loaded, Head: p.seedHead, Capture: p.seedState, Standing: p.standing, Metrics: p.metrics, Log: p.logger(levels.Seed),
	}).Handler()
	return nil
}

// seedHead is what this process says of itself to siblings.
func (p *process) seedHead() seed.Head {
	cfg := p.config()
	h := seed.Head{Process: p.siblings.id, Deployment: cfg.Name, Format: snapshot.Format, Key: p.kept.keys.Load().ID()}
	if !p.siblings.settled.Load() {
		return h // it asks siblings itself
	}
	held := snapshot.Holdings(p.table)
	for _, o := range p.vouchedOrigins() {
		h.Origins = append(h.Origins, seed.Origin{
			Name: o.Name, Vouched: o.Vouched, Resources: held[o.Name], Frozen: o.Frozen, FrozenChanged: o.FrozenChanged,
			Rollbacks: o.Rollbacks, Gates: o.Gates,
		})
	}
	return h
}

// seedState is what a sibling is given; nil: there is nothing yet.
func (p *process) seedState() *snapshot.State {
	if !p.siblings.settled.Load() {
		return nil
	}
	return snapshot.Capture(p.table, p.vouchedOrigins(), p.config().Name, p.kept.keys.Load(), time.Now())
}

// vouchedOrigins is keptOrigins, with the word of what was restored for those that have not vouched
// since the start.
func (p *process) vouchedOrigins() []snapshot.Origin {
	var out []snapshot.Origin
	for _, o := range p.keptOrigins() {
		if o.Vouched.IsZero() {
			o.Vouched = p.kept.restored[o.Name].Vouched
		}
		out = append(out, o.Origin)
	}
	return out
}

// askSiblings gives a process that has nothing what a sibling has, or else the file. A process that
// has a snapshot only hears what siblings say of freezes: nothing that it has is replaced.
func (p *process) askSiblings(ctx context.Context, empty bool) {
	s, cfg := &p.siblings, p.config()
	if !empty {
		s.settled.Store(true)
	}
	close(s.loaded)
	defer s.settled.Store(true)
	if !cfg.Cache.Seed.Asks() {
		return
	}
	wait := cfg.Cache.Seed.Timeout
	if !empty {
		wait = min(wait, headsWait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	began := time.Now()
	search := p.search(cfg)
	heads := search.Heads(ctx)
	var seeded map[string]snapshot.Origin
	if empty {
		seeded = p.takeSeed(ctx, search, heads, began)
	}
	p.obeySiblings(heads, seeded)
}

func (p *process) search(cfg *config.Config) *seed.Search {
	c := &cfg.Cache.Seed
	s := seed.Config{
		Process: p.siblings.id, Deployment: cfg.Name, File: c.File, Keys: p.kept.keys.Load(), MaxBytes: seedBytes, Room: p.room,
		Dial: p.dialSibling, Metrics: p.metrics, Log: p.logger(levels.Seed),
	}
	if most := int64(cfg.Cache.Snapshot.MaxBytes); most > 0 {
		s.MaxBytes = min(s.MaxBytes, 4*most) // a sibling gives what has no room on a disk, too
	}
	for i := range cfg.Origins {
		s.Origins = append(s.Origins, cfg.Origins[i].Name)
	}
	for _, peer := range c.Peers {
		address, each := config.SeedPeer(peer)
		s.Peers = append(s.Peers, seed.Peer{Address: address, Each: each})
	}
	return seed.New(s)
}

// dialSibling connects to a sibling, and fails if it is none.
func (p *process) dialSibling(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil || p.siblings.secured == nil {
		return conn, err
	}
	t := p.siblings.secured.client()
	t.MinVersion, t.NextProtos = tls.VersionTLS13, []string{"http/1.1"}
	secured := tls.Client(conn, t)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // nothing was written
		return nil, err
	}
	return secured, nil
}

// takeSeed restores the first of what was found that can be. It returns the orders of
// operators that were kept there.
func (p *process) takeSeed(ctx context.Context, search *seed.Search, heads []seed.Answer, began time.Time) map[string]snapshot.Origin {
	cfg := p.config()
	for found := range search.Sources(ctx, heads) {
		now := time.Now()
		r := found.Content.Restore(p.table, snapshot.RestoreConfig{Now: now, Wall: now, MaxAge: cfg.Cache.Snapshot.MaxAge, Addresses: p.originAddresses(), Room: p.room})
		for _, err := range r.Problems {
			p.logger(levels.Seed).Warn("a part of the seed was not restored", zap.String("from", found.From), zap.Error(err))
		}
		if r.Types == 0 {
			continue // nothing of it is in the table
		}
		left := found.Content.Report.LeftOut
		if left != (snapshot.LeftOut{}) {
			p.logger(levels.Seed).Warn("the seed has no resources with private keys, because it was made without cache.snapshot.key_file",
				zap.Int("secrets", left.Secrets), zap.Int("others", left.WithKeys))
		}
		p.kept.take(r, found.From)
		if p.kept.Keeper != nil {
			p.kept.Seeded(r, found.From, left)
		}
		p.logger(levels.Seed).Info("restored from a seed", zap.String("from", found.From), zap.Int("types", r.Types), zap.Int("resources", r.Resources),
			zap.Int("lost", r.Lost), zap.Int("too_old", r.TooOld), zap.Int64("bytes", found.Content.Report.Bytes), zap.Duration("took", time.Since(began)))
		return r.Freezes
	}
	p.logger(levels.Seed).Info("no seed found: starting with an empty cache",
		zap.Int("siblings", len(heads)), zap.Duration("took", time.Since(began)))
	return nil
}

// standing is what siblings show of this process on their pages.
func (p *process) standing() seed.Standing {
	o := p.pages.Overview()
	host, _ := instance(p.config()) // it was there at the start
	s := seed.Standing{
		Process: p.siblings.id, Deployment: o.Name, Host: host, Version: o.Version, Started: o.Started,
		State: string(o.State), Sentence: o.Sentence, Clients: o.Clients, InSync: o.InSyncPercent, Rejecting: o.Nacking,
	}
	at := p.admin.listener.Addr()
	if t, ok := at.(*net.TCPAddr); ok {
		s.AdminPort, s.AdminTLS, s.AdminLocal = uint16(t.Port), p.config().Admin.TLS.Enabled(), local(at) // a port has 16 bits
	}
	return s
}

// replicasOf is how the siblings are doing (cache.seed.peers); nil: there are none.
func (p *process) replicasOf() func(context.Context) []admin.Replica {
	if !p.config().Cache.Seed.Asks() {
		return nil
	}
	return func(ctx context.Context) (all []admin.Replica) {
		for _, s := range p.search(p.config()).Standings(ctx) {
			all = append(all, replicaOf(s))
		}
		slices.SortFunc(all, func(a, b admin.Replica) int {
			return strings.Compare(cmp.Or(a.Host, a.Address), cmp.Or(b.Host, b.Address))
		})
		return all
	}
}

func replicaOf(s seed.Stands) admin.Replica {
	if s.Err != nil {
		return admin.Replica{Address: s.Address, State: admin.Bad, Error: s.Err.Error()}
	}
	x := &s.Standing
	r := admin.Replica{
		Address: s.Address, Host: x.Host, Version: x.Version, Started: x.Started, State: admin.State(x.State), Sentence: x.Sentence,
		Clients: x.Clients, InSync: x.InSync, Nacking: x.Rejecting,
	}
	host, _, _ := net.SplitHostPort(s.Address)
	// A port on loopback is reached from the same machine alone.
	if x.AdminPort == 0 || x.AdminLocal && !net.ParseIP(host).IsLoopback() {
		return r
	}
	scheme := "http://"
	if x.AdminTLS {
		scheme = "https://"
	}
	r.Host = cmp.Or(r.Host, host)
	r.Page = scheme + net.JoinHostPort(host, strconv.Itoa(int(x.AdminPort))) + "/"
	return r
}
