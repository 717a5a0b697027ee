package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// resource is one resource in the table.
type resource struct {
	Origin string `json:"origin"`
	Type   string `json:"type"`
	inspect.ResourceInfo
	// Parameters are the parameter maps that hold it, as canonical text, unless that is only the
	// empty map: the first of them, or all with full=true.
	Parameters []string `json:"parameters,omitempty"`
	LeftOut    int      `json:"parameters_left_out,omitempty"` // number of others
	Secret     bool     `json:"secret,omitempty"`              // its body is never shown
	// Body is present with name= or bodies=true.
	Body json.RawMessage `json:"body,omitempty"`
}

// paramsOf returns the parameter map of param=KEY=VALUE, given once for each parameter; param= is
// the empty map. Nil: there is none.
func paramsOf(values []string) (*constraints.Params, error) {
	if len(values) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		_, twice := m[key]
		switch {
		case text == "" && len(values) == 1:
		case !ok:
			return nil, fmt.Errorf("param=%q: write param=KEY=VALUE, once for each parameter, or param= for none", text)
		case twice:
			return nil, fmt.Errorf("param=%q: the parameter %q has a value already", text, key)
		default:
			m[key] = value
		}
	}
	p := constraints.NewParams(m)
	return &p, nil
}

func (a *Admin) resources(r *http.Request) (any, error) {
	p := a.params(r, "type", "name", "match", "origin", "group", "param", "bodies", "full", "limit")
	q := inspect.ResourceQuery{TypeURL: p.typeURL(), Name: p.Get("name"), AllParams: p.flag("full")}
	l, bodies := newList[resource](p), p.flag("bodies") || q.Name != "" && !p.Has("bodies")
	origin := p.origin()
	if text := p.Get("group"); text != "" && p.err == nil {
		var known bool
		if q.Group, known, p.err = keyMeant(text, p.asked()); p.err == nil && !known {
			p.err = noGroup(text, origin)
		}
	}
	var wrong error
	q.Params, wrong = paramsOf(p.Values["param"])
	if err := cmp.Or(p.err, wrong); err != nil {
		return nil, err
	}
	for _, o := range p.asked() {
		inspect.Query(o, q, func(s inspect.ResourceInfo) bool {
			return !matches(p.Get("match"), s.Name) || l.add(a.resourceOf(o.Name(), &s, bodies))
		})
		if l.more {
			break
		}
	}
	return l.answer("resources")
}

func (a *Admin) resourceOf(origin string, s *inspect.ResourceInfo, withBody bool) resource {
	res := resource{
		Origin: origin, Type: metrics.ShortName(s.TypeURL), ResourceInfo: *s, LeftOut: s.Maps - len(s.Params), Secret: xds.IsSecret(s.TypeURL),
	}
	if s.Maps > 1 || s.Params[0] != "" {
		res.Parameters = s.Params
	}
	if withBody && s.Body != nil && !res.Secret {
		res.Body = a.body(s.Body)
	}
	return res
}

// body returns an encoded Any as JSON, with sensitive fields blanked.
func (a *Admin) body(encoded []byte) json.RawMessage {
	var body anypb.Any
	if err := proto.Unmarshal(encoded, &body); err != nil {
		return nil // cannot happen: the table checked it
	}
	sensitive.Blank(&body)
	return a.cfg.Readable(&body)
}
