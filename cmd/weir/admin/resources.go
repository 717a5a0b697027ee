package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// resource is one resource in the table.
type resource struct {
	Origin        string `json:"origin"`
	Group         string `json:"group"`
	Type          string `json:"type"`
	TypeURL       string `json:"type_url"`
	Name          string `json:"name"`
	Wildcard      bool   `json:"wildcard"`             // came with everything; else it was asked by name, or is of a collection
	Collection    string `json:"collection,omitempty"` // the glob, or the route configuration, that it is a member of
	Version       string `json:"version,omitempty"`
	OriginVersion string `json:"origin_version,omitempty"`
	Constraints   string `json:"constraints,omitempty"`
	Bytes         int    `json:"bytes"`
	Clients       int    `json:"clients"`          // subscribed by name
	Live          bool   `json:"live"`             // an open stream vouches for it
	Held          bool   `json:"held,omitempty"`   // stated gone in a mass removal that is held back
	Absent        bool   `json:"absent,omitempty"` // stated not to exist
	Secret        bool   `json:"secret,omitempty"` // its body is never shown
	// Body is there if name= or bodies=true was given.
	Body json.RawMessage `json:"body,omitempty"`
}

// query is what /resources is asked for; empty strings match all.
type query struct {
	origin, group, typeURL, name string
	bodies                       bool
}

func queryOf(r *http.Request) (q query, err error) {
	values := r.URL.Query()
	q = query{origin: values.Get("origin"), group: values.Get("group"), name: values.Get("name")}
	if text := values.Get("type"); text != "" {
		url, ok := config.TypeURL(text)
		if !ok {
			return q, fmt.Errorf("type=%q: write a short name such as cds, or a full type URL", text)
		}
		q.typeURL = url
	}
	q.bodies = q.name != ""
	if text := values.Get("bodies"); text != "" {
		if q.bodies, err = strconv.ParseBool(text); err != nil {
			return q, fmt.Errorf("bodies=%q: write true or false", text)
		}
	}
	return q, nil
}

func (a *Admin) resources(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r)
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
		o.Resources(q.group, q.typeURL, q.name, func(s relay.ResourceStatus) bool {
			return l.add(a.resourceOf(o.Name(), &s, q.bodies))
		})
		if l.more {
			break
		}
	}
	l.write(w, "resources")
}

func (a *Admin) resourceOf(origin string, s *relay.ResourceStatus, withBody bool) resource {
	res := resource{
		Origin: origin, Group: s.Group, Type: metrics.ShortName(s.TypeURL), TypeURL: s.TypeURL, Name: s.Name,
		Wildcard: s.Wildcard, Collection: s.Collection, Version: s.Version, OriginVersion: s.OriginVersion, Constraints: s.Constraints,
		Bytes: s.Bytes, Clients: s.Clients, Live: s.Live, Held: s.Held, Absent: s.Absent, Secret: relay.IsSecret(s.TypeURL),
	}
	if withBody && s.Body != nil && !res.Secret {
		res.Body = a.body(s.Body)
	}
	return res
}

// body is an encoded Any for people, without what must not be seen.
func (a *Admin) body(encoded []byte) json.RawMessage {
	var body anypb.Any
	if err := proto.Unmarshal(encoded, &body); err != nil {
		return nil // the table checked it when it came
	}
	Blank(&body)
	return a.cfg.Readable(&body)
}
