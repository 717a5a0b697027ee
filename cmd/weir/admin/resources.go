package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// resource is one resource in the table.
type resource struct {
	Origin     string `json:"origin"`
	Group      string `json:"group"`
	Type       string `json:"type"`
	TypeURL    string `json:"type_url"`
	Name       string `json:"name"`
	Wildcard   bool   `json:"wildcard"`             // member of `*`; or by name, or in Collection
	Collection string `json:"collection,omitempty"` // glob or route configuration of the member
	// Source is the server, or path, that it came from. Fallback: that is the origin's fallback.
	Source        string `json:"source,omitempty"`
	Fallback      bool   `json:"fallback,omitempty"`
	Version       string `json:"version,omitempty"`
	OriginVersion string `json:"origin_version,omitempty"`
	Constraints   string `json:"constraints,omitempty"`
	// Parameters are the parameter maps that hold it, as canonical text, unless that is only the
	// empty map: the first of them, or all with full=true.
	Parameters []string `json:"parameters,omitempty"`
	LeftOut    int      `json:"parameters_left_out,omitempty"` // number of others
	Bytes      int      `json:"bytes"`
	Clients    int      `json:"clients"` // subscribed by name, or to the set
	// Shadowed: for these maps another variant that matches as well is chosen, which is an error of
	// the origin (DYN-9).
	Shadowed bool `json:"shadowed,omitempty"`
	Live     bool `json:"live"`             // an open stream vouches for it
	Held     bool `json:"held,omitempty"`   // its removal is held back as part of a mass removal
	Absent   bool `json:"absent,omitempty"` // stated not to exist
	Secret   bool `json:"secret,omitempty"` // its body is never shown
	// Body is present with name= or bodies=true.
	Body json.RawMessage `json:"body,omitempty"`
}

// query are the parameters of /resources; empty strings match all.
type query struct {
	origin string
	match  string // glob of names
	bodies bool
	inspect.ResourceQuery
}

// resourceParameters are those that /resources takes.
var resourceParameters = []string{"type", "name", "match", "origin", "group", "param", "bodies", "full", "limit"}

func queryOf(r *http.Request, origins []*relay.Origin) (q query, err error) {
	values := r.URL.Query()
	q = query{origin: values.Get("origin"), match: values.Get("match")}
	q.Name = values.Get("name")
	once := maps.Clone(values)
	delete(once, "param") // which there may be several of
	var wrong error
	q.TypeURL, wrong = typeOf(values.Get("type"))
	if err = cmp.Or(knownValues(once, resourceParameters), wrong, knownOrigin(q.origin, origins)); err != nil {
		return q, err
	}
	if text := values.Get("group"); text != "" {
		var known bool
		if q.Group, known, err = keyMeant(text, q.origin, origins); err == nil && !known {
			err = noGroup(text, q.origin)
		}
		if err != nil {
			return q, err
		}
	}
	q.bodies = q.Name != ""
	if values.Has("bodies") {
		if q.bodies, err = flag(r, "bodies"); err != nil {
			return q, err
		}
	}
	if q.Params, err = paramsOf(values["param"]); err != nil {
		return q, err
	}
	q.AllParams, err = flag(r, "full")
	return q, err
}

// typeOf is the URL of a type that is given as that or as a short name; "" stays.
func typeOf(text string) (string, error) {
	url, ok := config.TypeURL(text)
	if !ok && text != "" {
		return "", fmt.Errorf("type=%q: write a short name such as cds, or a full type URL", text)
	}
	return url, nil
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

func (a *Admin) resources(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r, a.cfg.Table.Origins())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l, err := newList[resource](r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range a.cfg.Table.Origins() {
		if q.origin != "" && o.Name() != q.origin {
			continue
		}
		inspect.Query(o, q.ResourceQuery, func(s inspect.ResourceInfo) bool {
			if !matches(q.match, s.Name) {
				return true
			}
			return l.add(a.resourceOf(o.Name(), &s, q.bodies))
		})
		if l.more {
			break
		}
	}
	l.write(w, "resources")
}

func (a *Admin) resourceOf(origin string, s *inspect.ResourceInfo, withBody bool) resource {
	res := resource{
		Origin: origin, Group: s.Group, Type: metrics.ShortName(s.TypeURL), TypeURL: s.TypeURL, Name: s.Name,
		Wildcard: s.Wildcard, Collection: s.Collection, Version: s.Version, OriginVersion: s.OriginVersion, Constraints: s.Constraints,
		Bytes: s.Bytes, Clients: s.Clients, Live: s.Live, Held: s.Held, Absent: s.Absent, Secret: xds.IsSecret(s.TypeURL),
		Source: s.Source, Fallback: s.Fallback, Shadowed: s.Shadowed, LeftOut: s.Maps - len(s.Params),
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
