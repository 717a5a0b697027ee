package file

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Check reads the files as New does, without serving them. found are the problems, each with file
// and line. warnings are about valid content that is hardly intended. err says that nothing can be
// read.
func Check(cfg Config) (found, warnings []error, err error) {
	src, err := newSource(cfg.withDefaults())
	if err != nil {
		return nil, nil, err
	}
	p := src.look(time.Now(), nil)
	c := merge(&content{}, src)
	for _, x := range slices.Concat(p.problems, c.problems) {
		found = append(found, x)
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

// remarks returns all warnings.
func (c *content) remarks(cfg Config) problems {
	if x := c.constrained; x != nil && !cfg.TP2 {
		return append(problems{{file: x.in.path, at: x.at, msg: fmt.Sprintf(
			"%s is for clients with parameters, and to an origin that is not declared `tp2: true` none are brought: who gets it is whom it "+
				"matches without any", x.describe())}}, c.warnings...)
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
				add(f, p, "has a TTL, which nobody would renew in a fallback: leave it out")
			case xds.IsSecret(p.key.typeURL):
				add(f, p, "is a secret, and those of a fallback are served to nobody: leave it out")
			}
		}
	}
	return found
}
