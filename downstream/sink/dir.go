package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// unfinished is the file that is being written. Envoy and weir ignore files whose names begin with
// a dot.
const unfinished = ".weir-sink.tmp"

const (
	dirMode    fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
	secretMode fs.FileMode = 0o600
)

// dir is the directory, with our files in it.
type dir struct {
	path string
	// has is a digest of each file's content and mode; nil: the directory was not read yet, or
	// something has failed since.
	has map[string][sha256.Size]byte
	// doomed are files that nothing refers to, and since when.
	doomed map[string]time.Time
	// renamed is called for each file that was put in place; nil except in tests.
	renamed func(file string)
}

// open reads the directory, so that unchanged files are not written again.
func (d *dir) open(kinds []*kind) error {
	if d.has != nil {
		return nil
	}
	if err := os.MkdirAll(d.path, dirMode); err != nil {
		return err
	}
	// An earlier run may have been killed while it wrote.
	if err := ignoreMissing(os.Remove(filepath.Join(d.path, unfinished))); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	has := make(map[string][sha256.Size]byte)
	for _, e := range entries {
		for _, k := range kinds {
			if !k.owns(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(d.path, e.Name()))
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			if info, err := e.Info(); err != nil || info.Mode() != k.mode() {
				sum = [sha256.Size]byte{} // its mode is wrong: it is written again
			}
			has[e.Name()] = sum
		}
	}
	d.has, d.doomed = has, make(map[string]time.Time)
	return nil
}

func (k *kind) mode() fs.FileMode {
	if k.short == "sds" {
		return secretMode
	}
	return fileMode
}

// holds reports whether a file exists.
func (d *dir) holds(file string) bool {
	_, is := d.has[file]
	return is
}

// read returns a file's content; nil if it does not exist.
func (d *dir) read(file string) ([]byte, error) {
	if !d.holds(file) {
		return nil, nil
	}
	return os.ReadFile(filepath.Join(d.path, file))
}

// put writes a file, unless it has that content and mode already.
func (d *dir) put(file string, content []byte, mode fs.FileMode) (written bool, err error) {
	delete(d.doomed, file)
	sum := sha256.Sum256(content)
	if d.has[file] == sum {
		return false, nil
	}
	beside := filepath.Join(d.path, unfinished)
	if err := write(beside, content, mode); err != nil {
		return false, errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	if err := os.Rename(beside, filepath.Join(d.path, file)); err != nil {
		return false, errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	if d.has[file] = sum; d.renamed != nil {
		d.renamed(file)
	}
	return true, nil
}

// write writes a file. Others cannot read it before it has its mode.
func write(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, secretMode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *dir) remove(file string) error {
	err := ignoreMissing(os.Remove(filepath.Join(d.path, file)))
	if err == nil {
		delete(d.has, file)
		delete(d.doomed, file)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const suffix = ".pb"

// maxFileName is the longest file name, in bytes.
const maxFileName = 255

// fileOf returns the name of the file of one resource.
func (k *kind) fileOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '/' || c == '%' {
			_, _ = fmt.Fprintf(&b, "%%%02X", c) // a strings.Builder returns no error
		} else {
			b.WriteByte(c)
		}
	}
	escaped, room := b.String(), maxFileName-len(k.short)-1-len(suffix)
	if len(escaped) > room {
		sum := sha256.Sum256([]byte(name))
		escaped = escaped[:room-17] + "~" + hex.EncodeToString(sum[:8])
	}
	return k.short + "." + escaped + suffix
}

// file returns the name of the file with all resources.
func (k *kind) file() string { return k.short + suffix }

// owns reports whether a file is of the type.
func (k *kind) owns(file string) bool {
	if k.list {
		return file == k.file()
	}
	rest, is := strings.CutPrefix(file, k.short+".")
	return is && strings.HasSuffix(rest, suffix) && rest != suffix
}

// references returns the names that a resource of a list refers to: the endpoints of a cluster, or
// the route configurations of a listener or a scoped route. What does not decode refers to nothing.
func references(typeURL string, v *xds.Variant) []string {
	switch typeURL {
	case xds.ClusterType:
		if name := v.Endpoints(); name != "" && name != xds.Wildcard {
			return []string{name}
		}
	case xds.ScopedRouteType:
		m := &routev3.ScopedRouteConfiguration{}
		if unpack(v, m) && m.GetRouteConfigurationName() != "" {
			return []string{xds.NameKey(m.GetRouteConfigurationName())}
		}
	case xds.ListenerType:
		m := &listenerv3.Listener{}
		if unpack(v, m) {
			return routesOf(m)
		}
	}
	return nil
}

// maxUnpacked bounds what a resource may need in memory, in bytes, to be looked into.
const maxUnpacked = 128 << 20

func unpack(v *xds.Variant, m proto.Message) bool {
	a := &anypb.Any{}
	return proto.Unmarshal(v.Any(), a) == nil && xds.Unmarshal(a.GetValue(), m, maxUnpacked) == nil
}

// routesOf returns the names of a listener's route configurations.
func routesOf(l *listenerv3.Listener) (names []string) {
	add := func(a *anypb.Any) {
		m := &hcmv3.HttpConnectionManager{}
		if a == nil || !a.MessageIs(m) || a.UnmarshalTo(m) != nil {
			return
		}
		if name := m.GetRds().GetRouteConfigName(); name != "" {
			names = append(names, xds.NameKey(name))
		}
		inline := m.GetScopedRoutes().GetScopedRouteConfigurationsList()
		for _, scope := range inline.GetScopedRouteConfigurations() {
			if name := scope.GetRouteConfigurationName(); name != "" {
				names = append(names, xds.NameKey(name))
			}
		}
	}
	for _, chain := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			add(filter.GetTypedConfig())
		}
	}
	add(l.GetApiListener().GetApiListener())
	return names
}
