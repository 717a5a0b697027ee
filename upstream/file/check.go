package file

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Check reads the files as New does, without serving them. found are the problems, each with file
// and line. warnings are about valid content that is hardly intended. err says that nothing can be
// read.
func Check(cfg Config) (found, warnings []error, err error) {
	src, c, found, err := readOnly(cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range c.remarks(cfg) {
		warnings = append(warnings, x)
	}
	if cfg.Fallback {
		for _, x := range src.unfit() {
			found = append(found, x)
		}
	}
	return found, warnings, nil
}

// readOnly reads the files once, for what does not serve them.
func readOnly(cfg Config) (src *source, c *content, found []error, err error) {
	if src, err = newSource(cfg.withDefaults()); err != nil {
		return nil, nil, nil, err
	}
	p := src.look(time.Now(), nil)
	c = merge(&content{}, src)
	for _, x := range slices.Concat(p.problems, c.problems) {
		found = append(found, x)
	}
	return src, c, found, nil
}

// remarks returns all warnings.
func (c *content) remarks(cfg Config) problems {
	if x := c.constrained; x != nil && !cfg.TP2 {
		return append(problems{{file: x.in.path, at: x.at, msg: fmt.Sprintf(
			"%s is for clients with parameters, but an origin without `tp2: true` gets none: only clients that it matches without parameters get it", x.describe())}}, c.warnings...)
	}
	return c.warnings
}

// unfit returns the resources that cannot be used as a fallback.
func (s *source) unfit() (found problems) {
	add := func(f *file, p placed, why string) {
		found = append(found, &problem{file: f.path, at: p.at, msg: fmt.Sprintf("%s %s", p.key, why)})
	}
	for _, f := range s.all() {
		for _, p := range f.good {
			switch {
			case p.HasTTL:
				add(f, p, "has a TTL, but a fallback never renews TTLs: remove it")
			case xds.IsSecret(p.key.typeURL):
				add(f, p, "is a secret, but a fallback serves no secrets: remove it")
			}
		}
	}
	return found
}

// Resources reads the files as New does, and returns what they answer to a subscription: to names
// with a parameter map, or, if there are none, to `*`. A name that is not there is left out. The
// error joins every problem of the files: something may be missing then.
func Resources(cfg Config, typeURL string, names []string, p constraints.Params) ([]xds.Resource, error) {
	_, c, found, err := readOnly(cfg)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return nil, fmt.Errorf("%s cannot be used:\n%w", cfg.Path, errors.Join(found...))
	}
	s := c.set(typeURL)
	var all []xds.Resource
	if len(names) == 0 {
		for _, name := range s.names {
			for _, e := range matching(s.byName[name], p) {
				all = append(all, e.Resource)
			}
		}
	}
	for _, name := range names {
		for _, e := range s.resolve(xds.NameKey(name), p) {
			all = append(all, e.Resource)
		}
	}
	return all, nil
}
