package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// most bounds, in Config.OrderHold, the wait of what must come after something else while that
// changes all the time.
const most = 4

// order is the state that keeps what is referred to in place before and after what refers to it.
type order struct {
	// clusters are those in cds.pb, as encoded `resources` fields by name; nil: it was not read
	// yet.
	clusters map[string][]byte
	// gone are those of them that were removed, and since when.
	gone map[string]time.Time
	// lateAt is when routes and listeners may be written that may refer to the clusters last
	// written. lateSince is when the first unwritten change of them was seen; zero: there is none.
	// lateWrote is when some were last written.
	lateAt, lateSince, lateWrote time.Time
}

// Field numbers of envoy.service.discovery.v3.DiscoveryResponse.
const (
	fieldVersion = 1
	fieldTypeURL = 4
)

// response returns the content of a file; resources are encoded fields.
func response(typeURL string, resources [][]byte) []byte {
	sum := sha256.New()
	for _, r := range resources {
		sum.Write(r)
	}
	version := hex.EncodeToString(sum.Sum(nil)[:16])
	b := xds.AppendString(nil, fieldVersion, version)
	for _, r := range resources {
		b = append(b, r...)
	}
	return xds.AppendString(b, fieldTypeURL, typeURL)
}

// resources returns the resources of a file by name, as encoded fields; none if the file is not
// ours.
func resources(content []byte) map[string][]byte {
	found := make(map[string][]byte)
	parsed, err := xds.ParseResponse(content, false)
	if err != nil {
		return found
	}
	u, bad := xds.Accept(parsed, 0)
	if bad != nil {
		return found
	}
	for i := range u.Resources {
		if r := &u.Resources[i]; !r.Nameless {
			field := protowire.AppendTag(nil, xds.FieldResources, protowire.BytesType)
			found[r.Name] = protowire.AppendBytes(field, r.Any)
		}
	}
	return found
}

// written returns the names of the resources in the files of a type.
func (s *Sink) written(k *kind) (names []string, err error) {
	for file := range s.dir.has {
		if !k.owns(file) {
			continue
		}
		content, err := s.dir.read(file)
		if err != nil {
			return nil, err
		}
		names = slices.AppendSeq(names, maps.Keys(resources(content)))
	}
	return names, nil
}

// write updates the files, as far as the content is complete and its time has come.
func (s *Sink) write(now time.Time) (next time.Time, wrote bool, err error) {
	w := &round{Sink: s, now: now}
	w.early()
	if w.ready() && w.err == nil {
		w.clusters()
		w.late()
		w.sweep()
	}
	return w.next, w.wrote, w.err
}

// round is one pass over what is to be written. It ends with the first error.
type round struct {
	*Sink
	now    time.Time
	silent map[*kind]bool // lists about which the origin is silent
	next   time.Time      // when to look again; zero: when something changes
	wrote  bool
	err    error
}

func (w *round) wait(until time.Time) {
	if w.next.IsZero() || until.Before(w.next) {
		w.next = until
	}
}

// put writes a file, counts it if its content changed, and reports whether it succeeded.
func (w *round) put(k *kind, file string, resources [][]byte) bool {
	if w.err != nil {
		return false
	}
	written, err := w.dir.put(file, response(k.typeURL, resources), k.mode())
	if w.err = err; written {
		w.wrote = true
		w.counts.SinkWrite(nil)
	}
	return err == nil
}

// early writes the resources that clusters refer to: each is complete by itself.
func (w *round) early() {
	for _, k := range w.kinds {
		if !k.list && !k.late() {
			w.bodies(k)
		}
	}
}

// bodies writes the bodies that are not in their files yet.
func (w *round) bodies(k *kind) {
	for _, name := range slices.Sorted(maps.Keys(w.feeds[k].entries)) {
		x := w.feeds[k].entries[name]
		if x.body != nil && x.body != x.wrote && w.put(k, k.fileOf(name), [][]byte{x.body.SotW()}) {
			x.wrote = x.body
		}
	}
}

// absent writes empty files for names that do not exist, or about which the origin is silent:
// otherwise a client would wait for the file, or refuse what refers to it. An existing file stays,
// as clients keep what they have.
func (w *round) absent(k *kind) {
	for _, name := range slices.Sorted(maps.Keys(w.feeds[k].entries)) {
		x, file := w.feeds[k].entries[name], k.fileOf(name)
		if x.body == nil && k.typeURL != xds.SecretType && !w.dir.holds(file) {
			w.put(k, file, nil)
		}
	}
}

// ready reports whether all that is written together is known.
func (w *round) ready() bool {
	all := true
	w.silent = make(map[*kind]bool)
	for _, k := range w.kinds {
		ready, mute, again := w.feeds[k].ready(w.now, &w.dir)
		if w.silent[k] = mute; !ready {
			all = false
			w.wait(again)
		}
	}
	return all
}

// clusters writes the list of clusters, with removed ones for as long as something may refer to
// them.
func (w *round) clusters() {
	for _, k := range w.kinds {
		if !k.list && !k.late() {
			w.absent(k)
		}
	}
	k := w.kindOf(xds.ClusterType)
	if k == nil || w.silent[k] || w.err != nil {
		return
	}
	f, o := w.feeds[k], &w.order
	if o.clusters == nil {
		content, err := w.dir.read(k.file())
		if w.err = err; err != nil {
			return
		}
		o.clusters, o.gone = resources(content), make(map[string]time.Time)
	}
	let := w.letGo(f)
	if !f.changed && !let {
		return
	}
	list, news := f.list(), false
	for name := range list {
		news = news || string(list[name]) != string(o.clusters[name])
	}
	for name := range o.gone {
		list[name] = o.clusters[name]
	}
	if w.put(k, k.file(), inOrder(list)) {
		o.clusters, f.changed = list, false
		if news {
			o.lateAt = w.now.Add(w.cfg.OrderHold)
		}
	}
}

// letGo records which clusters were removed, and reports whether some in the file need not stay any
// longer.
func (w *round) letGo(f *feed) (some bool) {
	o, hold := &w.order, w.cfg.OrderHold
	pending := w.lateChanged()
	for name := range o.clusters {
		_, went := o.gone[name]
		switch is := f.entries[name] != nil; {
		case is:
			delete(o.gone, name)
		case !went:
			o.gone[name] = w.now
		}
	}
	for name, since := range o.gone {
		until := later(since, o.lateWrote).Add(hold)
		if pending {
			until = w.now.Add(hold)
		}
		if last := since.Add(most * hold); last.Before(until) {
			until = last
		}
		if w.now.Before(until) {
			w.wait(until)
			continue
		}
		delete(o.gone, name)
		some = true
	}
	return some
}

// list returns the resources as encoded fields, by name.
func (f *feed) list() map[string][]byte {
	list := make(map[string][]byte, len(f.entries))
	for name, x := range f.entries {
		list[name] = x.body.SotW()
	}
	return list
}

func inOrder(list map[string][]byte) (fields [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		fields = append(fields, list[name])
	}
	return fields
}

func (s *Sink) kindOf(typeURL string) *kind {
	if i := slices.IndexFunc(s.kinds, func(k *kind) bool { return k.typeURL == typeURL }); i >= 0 {
		return s.kinds[i]
	}
	return nil
}

// lateChanged reports whether routes or listeners differ from what was written, except those about
// which the origin is silent.
func (w *round) lateChanged() bool {
	for _, k := range w.kinds {
		if !k.late() || w.silent[k] {
			continue
		}
		f := w.feeds[k]
		if k.list && f.changed {
			return true
		}
		for _, x := range f.entries {
			if !k.list && x.body != x.wrote {
				return true
			}
		}
	}
	return false
}

// late writes routes and listeners, a hold after the clusters that they may refer to.
func (w *round) late() {
	o := &w.order
	if w.err != nil || !w.lateChanged() {
		o.lateSince = time.Time{}
		return
	}
	if o.lateSince.IsZero() {
		o.lateSince = w.now
	}
	at := o.lateAt
	if last := o.lateSince.Add(most * w.cfg.OrderHold); last.Before(at) {
		at = last
	}
	if w.now.Before(at) {
		w.wait(at)
		return
	}
	wrote := w.wrote
	w.wrote = false
	for _, k := range w.kinds {
		switch f := w.feeds[k]; {
		case !k.late() || w.silent[k]:
		case !k.list:
			w.bodies(k)
			w.absent(k)
			for _, x := range f.entries {
				if w.err == nil {
					x.wrote = x.body
				}
			}
		case f.changed:
			f.changed = !w.put(k, k.file(), inOrder(f.list()))
		}
	}
	if w.wrote {
		o.lateWrote = w.now
	}
	w.wrote = w.wrote || wrote
	if w.err == nil {
		o.lateSince = time.Time{}
	}
}

// sweep removes files of single resources that nothing has referred to for a hold, once no removed
// cluster is kept.
func (w *round) sweep() {
	o, hold := &w.order, w.cfg.OrderHold
	if w.err != nil || len(o.gone) > 0 || !o.lateSince.IsZero() {
		return
	}
	wanted := make(map[string]bool)
	for _, k := range w.kinds {
		for name := range w.feeds[k].entries {
			wanted[k.fileOf(name)] = true
		}
	}
	for file := range w.dir.has {
		single := func(k *kind) bool { return !k.list && k.owns(file) }
		if wanted[file] || !slices.ContainsFunc(w.kinds, single) {
			delete(w.dir.doomed, file)
			continue
		}
		since, is := w.dir.doomed[file]
		if !is {
			since = w.now
			w.dir.doomed[file] = since
		}
		until := later(since, o.lateWrote).Add(hold)
		if w.now.Before(until) {
			w.wait(until)
		} else if w.err = w.dir.remove(file); w.err == nil {
			w.counts.SinkWrite(nil)
			w.wrote = true
		} else {
			return
		}
	}
}
