package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The edits of TestEdits.

// put writes a file beside its place and renames it there.
func (e *editor) put(name string) touched {
	e.must(os.RemoveAll(filepath.Join(e.dir, name+"/"))) // if it is a directory
	beside := filepath.Join(e.dir, ".new")
	e.disk[name] = &onDisk{states: e.write(beside, name)}
	e.must(os.Rename(beside, filepath.Join(e.dir, name)))
	return touched{name: true}
}

// writeInPlace overwrites a file, so that its inode stays.
func (e *editor) writeInPlace(name string) touched {
	if d := e.disk[name]; d == nil || d.dir {
		return nil
	}
	path := filepath.Join(e.dir, name)
	e.disk[name].states = e.write(path, name)
	e.clock = e.clock.Add(time.Second)
	e.must(os.Chtimes(path, e.clock, e.clock))
	return touched{name: true}
}

func (e *editor) remove(name string) touched {
	e.must(os.RemoveAll(filepath.Join(e.dir, name)))
	delete(e.disk, name)
	return touched{name: true}
}

// rename moves a file onto another of its kind. The only one is moved away.
func (e *editor) rename() touched {
	if e.one != "" {
		if e.disk[e.one] == nil {
			return nil
		}
		e.must(os.RemoveAll(filepath.Join(e.dir, ".away")))
		e.must(os.Rename(filepath.Join(e.dir, e.one), filepath.Join(e.dir, ".away")))
		delete(e.disk, e.one)
		return touched{e.one: true}
	}
	from := 2 * e.random.IntN(len(plain)/2)
	to := from + 1
	if e.random.IntN(2) == 0 {
		from, to = to, from
	}
	a, b := plain[from], plain[to]
	d := e.disk[a]
	if d == nil || d.dir {
		return nil
	}
	e.must(os.RemoveAll(filepath.Join(e.dir, b+"/")))
	e.must(os.Rename(filepath.Join(e.dir, a), filepath.Join(e.dir, b)))
	delete(e.disk, a)
	e.disk[b] = d
	return touched{a: true, b: true}
}

// directory puts a directory where a file was.
func (e *editor) directory() touched {
	name := e.pick(plain)
	e.must(os.RemoveAll(filepath.Join(e.dir, name)))
	e.must(os.Mkdir(filepath.Join(e.dir, name), 0o755))
	e.disk[name] = &onDisk{dir: true}
	return touched{name: true}
}

// swap replaces what the links lead through, as a ConfigMap is updated.
func (e *editor) swap() {
	before := filepath.Join(e.dir, fmt.Sprint("..v", e.mounts))
	e.mounts++
	next := fmt.Sprint("..v", e.mounts)
	e.must(os.Mkdir(filepath.Join(e.dir, next), 0o755))
	e.mounted = map[string]stating{}
	for _, name := range links {
		if e.random.IntN(5) > 0 { // else the link leads nowhere
			e.mounted[name] = e.write(filepath.Join(e.dir, next, name), name)
		}
	}
	e.must(os.Symlink(next, filepath.Join(e.dir, "..tmp")))
	e.must(os.Rename(filepath.Join(e.dir, "..tmp"), filepath.Join(e.dir, configMapLink)))
	e.must(os.RemoveAll(before))
}

// link makes one of the links, or removes it. A plain file is replaced by a link to one.
func (e *editor) link() touched {
	name := e.pick(links)
	if !slices.Contains(links, name) {
		t := e.put(name)
		target := fmt.Sprintf(".target-%d%s", e.mounts, suffix(name))
		e.mounts++
		e.must(os.Rename(filepath.Join(e.dir, name), filepath.Join(e.dir, target)))
		e.must(os.Symlink(target, filepath.Join(e.dir, ".link")))
		e.must(os.Rename(filepath.Join(e.dir, ".link"), filepath.Join(e.dir, name)))
		return t
	}
	path := filepath.Join(e.dir, name)
	if e.disk[name] != nil {
		e.must(os.Remove(path))
		delete(e.disk, name)
		return touched{name: true}
	}
	e.must(os.Symlink(filepath.Join(configMapLink, name), path))
	e.disk[name] = &onDisk{}
	return touched{name: true}
}

// noise is what editors leave behind. It counts for nothing.
func (e *editor) noise() touched {
	name := []string{".a.json.swp", "a.json~", "#c.yaml#"}[e.random.IntN(3)]
	e.write(filepath.Join(e.dir, name), "a.json")
	return touched{everything: true}
}

// away has the directory look as if it were not mounted, for one look.
func (e *editor) away() touched {
	e.must(os.Rename(e.dir, e.dir+".away"))
	if e.random.IntN(2) == 0 {
		e.must(os.Mkdir(e.dir, 0o755))
	}
	e.origin.load(touched{everything: true})
	e.check("the directory is away")
	e.must(os.RemoveAll(e.dir))
	e.must(os.Rename(e.dir+".away", e.dir))
	return touched{everything: true}
}

// empty removes all files.
func (e *editor) empty() touched {
	for name := range e.disk {
		e.must(os.RemoveAll(filepath.Join(e.dir, name)))
	}
	clear(e.disk)
	return touched{everything: true}
}

// write writes a file as one of that name is written: in order, half of it, or garbage. It returns
// what the file states; nil: it is not in order.
func (e *editor) write(path, name string) stating {
	states := e.stating()
	text := e.encode(name, states)
	switch e.random.IntN(6) {
	case 0:
		if len(states) == 0 {
			break
		}
		// The last resource is cut, or what closes the list.
		text, states = text[:len(text)-1-e.random.IntN(5)], nil
	case 1:
		text, states = e.garbage(), nil
	}
	e.must(os.WriteFile(path, text, 0o600))
	return states
}

// stating is drawn: up to five resources of one type.
func (e *editor) stating() stating {
	states, typeURL := stating{}, []string{xds.ClusterType, xds.EndpointType}[e.random.IntN(2)]
	for range e.random.IntN(6) {
		states[key{typeURL, fmt.Sprint("n", e.random.IntN(6)), ""}] = 1 + e.random.IntN(9)
	}
	return states
}

// encode is a file in the form that its name says.
func (e *editor) encode(name string, states stating) []byte {
	m := &discoveryv3.DiscoveryResponse{VersionInfo: "1"}
	for k, seconds := range states {
		var body proto.Message = &clusterv3.Cluster{
			Name: k.name, ConnectTimeout: durationpb.New(time.Duration(seconds) * time.Second),
		}
		if k.typeURL == xds.EndpointType {
			stale := durationpb.New(time.Duration(seconds) * time.Second)
			policy := &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: stale}
			body = &endpointv3.ClusterLoadAssignment{ClusterName: k.name, Policy: policy}
		}
		a, err := anypb.New(body)
		e.must(err)
		m.Resources = append(m.Resources, a)
	}
	if suffix(name) == ".pb" {
		text, err := proto.Marshal(m)
		e.must(err)
		return text
	}
	if suffix(name) == ".textproto" {
		text, err := prototext.Marshal(m)
		e.must(err)
		return text
	}
	text, err := protojson.Marshal(m)
	e.must(err)
	if len(states) > 0 {
		return text
	}
	return []byte(`{"resources": []}`)
}

// garbage is what is no such file, and a file that is too long.
func (e *editor) garbage() []byte {
	long := strings.Repeat(" ", maxBytes)
	all := []string{
		"", "\xff\xfe", "- oops: [", "<html>404</html>", "[1, 2", `{"resources": 7}`, `{"version_info": "1"}`,
		`{"resources": [{"@type": "nonsense"}]}`, `{"resources": [{"name": "n1"}]}`, `{"resources": [{}]} x`,
		`{"resources": []}` + long,
	}
	same := map[string]any{"@type": xds.ClusterType, "name": "n1"}
	twice, err := json.Marshal(map[string]any{"resources": []any{same, same}})
	e.must(err)
	all = append(all, string(twice))
	return []byte(all[e.random.IntN(len(all))])
}
