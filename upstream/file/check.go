package file

import (
	"fmt"
	"slices"
	"time"
)

// Check reads the files as New does, for somebody who wants to know what they are worth: each problem names file and line. warnings are
// of what is in order and hardly meant. err is that there is nothing to read.
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
	return found, warnings, nil
}

// remarks are all warnings.
func (c *content) remarks(cfg Config) problems {
	if x := c.constrained; x != nil && !cfg.TP2 {
		return append(problems{{file: x.in.path, at: x.at, msg: fmt.Sprintf(
			"%s is for clients with parameters, and to an origin that is not declared `tp2: true` none are brought: who gets it is whom it "+
				"matches without any", x.describe())}}, c.warnings...)
	}
	return c.warnings
}
