package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay"
)

// answers serves requests. Its error is what is wrong with one: a RefusedOrder says with which
// code, and any other is a bad request.
func answers(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := serve(w, r)
		if err == nil {
			return
		}
		code := http.StatusBadRequest
		if refused := (*RefusedOrder)(nil); errors.As(err, &refused) {
			code = refused.Code
		}
		http.Error(w, err.Error(), code)
	}
}

// inJSON is answers with a value as JSON.
func inJSON(answer func(*http.Request) (any, error)) http.HandlerFunc {
	return answers(func(w http.ResponseWriter, r *http.Request) error {
		v, err := answer(r)
		if err == nil {
			writeJSON(w, http.StatusOK, v)
		}
		return err
	})
}

// inText is answers with a line of text.
func inText(answer func(*http.Request) (string, error)) http.HandlerFunc {
	return answers(func(w http.ResponseWriter, r *http.Request) error {
		said, err := answer(r)
		if err == nil {
			writeText(w, said+"\n")
		}
		return err
	})
}

// refusedf makes the error of a request that is refused with a code.
func refusedf(code int, format string, args ...any) error {
	return &RefusedOrder{code, []string{fmt.Sprintf(format, args...)}}
}

// params are the parameters of a request. err is the first thing that is wrong with them: it is
// looked at when all were read.
type params struct {
	url.Values
	origins []*relay.Origin // that there are
	err     error
}

// params returns the parameters of a request, with those that it may have. One that would have no
// effect is refused: the answer would look like one to what was asked.
func (a *Admin) params(r *http.Request, names ...string) *params {
	p := &params{origins: a.cfg.Table.Origins()}
	if p.Values, p.err = url.ParseQuery(r.URL.RawQuery); p.err != nil {
		p.err = fmt.Errorf("the query is not understood: %w", p.err)
	}
	for name, all := range p.Values {
		switch {
		case !slices.Contains(names, name):
			p.wrongf("there is no parameter %q here, but %s", name, cmp.Or(strings.Join(names, ", "), "none"))
		case len(all) > 1 && name != "param": // of which there may be several
			p.wrongf("%s is given twice", name)
		}
	}
	return p
}

func (p *params) wrongf(format string, args ...any) {
	p.err = cmp.Or(p.err, fmt.Errorf(format, args...))
}

// flag returns a boolean; false if it is missing. One without a value is refused: it would have no
// effect, though it looks as if it had.
func (p *params) flag(name string) bool {
	is, err := strconv.ParseBool(p.Get(name))
	if err != nil && p.Has(name) {
		p.wrongf("%s=%q: write true or false", name, p.Get(name))
	}
	return is
}

// typeURL returns the URL of type=; "": it is missing.
func (p *params) typeURL() string {
	typeURL, err := typeOf(p.Get("type"))
	p.err = cmp.Or(p.err, err)
	return typeURL
}

// typeOf is the URL of a type that is given as that or as a short name; "" stays.
func typeOf(text string) (string, error) {
	url, ok := config.TypeURL(text)
	if !ok && text != "" {
		return "", fmt.Errorf("type=%q: write a short name such as cds, or a full type URL", text)
	}
	return url, nil
}

// origin returns the name of an origin; "": it is missing.
func (p *params) origin() string {
	name := p.Get("origin")
	if name != "" && len(p.asked()) == 0 {
		p.err = cmp.Or(p.err, NoOrigin(name, p.origins))
	}
	return name
}

// asked are the origins that are asked about: the one that is named, or all.
func (p *params) asked() []*relay.Origin {
	return originsNamed(p.origins, p.Get("origin"))
}

// originsNamed are the origins with a name, or all with "".
func originsNamed(all []*relay.Origin, name string) []*relay.Origin {
	return slices.DeleteFunc(slices.Clone(all), func(o *relay.Origin) bool { return name != "" && o.Name() != name })
}

// since reads since=1h, the time from which on something is shown. Without it that is the time
// otherwise before now, or zero without one.
func (p *params) since(now time.Time, otherwise time.Duration) (from time.Time) {
	d, text := otherwise, p.Get("since")
	if text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil || d <= 0 {
			p.wrongf("since=%q: write a duration such as 1h", text)
		}
	}
	if d == 0 {
		return from
	}
	return now.Add(-d)
}

// NoOrigin is the error of a name that is no origin's. It lists the origins.
func NoOrigin(name string, origins []*relay.Origin) error {
	names := make([]string, 0, len(origins))
	for _, o := range origins {
		names = append(names, o.Name())
	}
	if len(names) == 1 {
		return fmt.Errorf("there is no origin %q; the only one is %s", name, names[0])
	}
	return fmt.Errorf("there is no origin %q; the origins are %s", name, strings.Join(names, ", "))
}
