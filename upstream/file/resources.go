package file

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Resources reads the files as New does, and returns what they answer to a subscription: to names
// with a parameter map, or, if there are none, to `*`. A name that is not there is left out. The
// error joins every problem of the files: something may be missing then.
func Resources(cfg Config, typeURL string, names []string, p constraints.Params) ([]xds.Resource, error) {
	src, err := newSource(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	found := src.look(time.Now(), nil).problems
	c := merge(&content{}, src)
	var errs []error
	for _, problem := range slices.Concat(found, c.problems) {
		errs = append(errs, problem)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s cannot be used:\n%w", cfg.Path, errors.Join(errs...))
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
