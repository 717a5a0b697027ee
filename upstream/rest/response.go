package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

const resourceType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// deterministic encodes equal messages as equal bytes.
var deterministic = proto.MarshalOptions{Deterministic: true, AllowPartial: true}

// maxReasons bounds the error text of a bad response, as in xds.Accept.
const maxReasons = 100

// response is a decoded body.
type response struct {
	typeURL, version, nonce, identifier string
	raw                                 []byte // a DiscoveryResponse of the resources that decode
	refused                             []refused
	over                                int  // how many resources it has, if that is too many, and so none is read
	timed                               bool // a resource has a TTL
}

// refused is a resource that does not decode.
type refused struct {
	name   string // "" if it cannot be found
	reason string
}

// parse decodes the JSON of a DiscoveryResponse. An error means that it is none. A panic over a
// peer's bytes costs that response and nothing else (ERR-11).
func (o *Origin) parse(typeURL string, data []byte) (r *response, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("reading a response panicked: %v", p)
		}
	}()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("is not a DiscoveryResponse in JSON: %w", err)
	}
	listed := fields["resources"]
	lists := len(listed) > 0 && string(listed) != "null"
	delete(fields, "resources")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var head discoveryv3.DiscoveryResponse
	if err := (protojson.UnmarshalOptions{Resolver: o.cfg.Types}).Unmarshal(rest, &head); err != nil {
		return nil, fmt.Errorf("is not a DiscoveryResponse: %s", plain(err))
	}
	if !lists && head.GetVersionInfo() == "" {
		return nil, errors.New("says neither a version nor resources, so it is not taken for an empty set")
	}
	if t := head.GetTypeUrl(); t != "" && t != typeURL {
		return nil, fmt.Errorf("is of type %s, not %s", t, typeURL)
	}
	head.TypeUrl = typeURL
	r = &response{typeURL: typeURL, version: head.GetVersionInfo(), nonce: head.GetNonce(), identifier: head.GetControlPlane().GetIdentifier()}
	var resources []json.RawMessage
	if lists {
		n, is := elements(listed)
		if !is {
			return nil, errors.New("resources are no list")
		}
		if n > o.table.Elements() {
			r.over = n
			return r, nil
		}
		if err := json.Unmarshal(listed, &resources); err != nil {
			return nil, fmt.Errorf("resources are no list: %w", err)
		}
	}
	for i, raw := range resources {
		a, why := o.resource(typeURL, raw)
		if why != nil {
			r.refuse(i, o.nameIn(typeURL, raw), why)
			continue
		}
		r.timed = r.timed || hasTTL(a)
		head.Resources = append(head.Resources, a)
	}
	r.raw, err = deterministic.Marshal(&head)
	return r, err
}

// elements counts the elements of a list, which has been read as JSON before. One takes two bytes
// there, and twenty once it is in a list of its own. It returns false for what is no list.
func elements(list json.RawMessage) (n int, is bool) {
	if list[0] != '[' {
		return 0, false
	}
	depth, text := 0, false
	for i := 1; i < len(list)-1; i++ {
		switch b := list[i]; {
		case text && b == '\\':
			i++
		case b == '"':
			text = !text
		case text:
		case b == '[' || b == '{':
			depth++
		case b == ']' || b == '}':
			depth--
		case b == ',' && depth == 0:
			n++
		}
		if n == 0 && !strings.ContainsRune(" \t\r\n", rune(list[i])) {
			n = 1
		}
	}
	return n, true
}

// resource decodes one Any. Errors quote nothing of secrets (RELAY-76).
func (o *Origin) resource(typeURL string, raw json.RawMessage) (*anypb.Any, error) {
	var a anypb.Any
	err := protojson.UnmarshalOptions{Resolver: o.cfg.Types, AllowPartial: true}.Unmarshal(raw, &a)
	if err == nil {
		return &a, nil
	}
	text := plain(err)
	switch {
	case strings.Contains(text, "unable to resolve"):
		return nil, errors.New(text + "; its descriptors are not known: give them in types")
	case xds.IsSecret(typeURL):
		return nil, errors.New("is not what belongs here; it is not repeated, since it is a secret")
	}
	return nil, errors.New(text)
}

// hasTTL reports whether a resource is a wrapper with a TTL.
func hasTTL(a *anypb.Any) bool {
	var w discoveryv3.Resource
	return a.GetTypeUrl() == resourceType && proto.Unmarshal(a.GetValue(), &w) == nil && w.GetTtl() != nil
}

// plain returns the text of a protobuf error without its prefix. The space after the prefix is
// sometimes a non-breaking one.
func plain(err error) string {
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
}

func (r *response) refuse(i int, name string, why error) {
	if name == "" {
		name = fmt.Sprintf("resources[%d]", i)
		r.refused = append(r.refused, refused{reason: name + ": " + why.Error()})
		return
	}
	r.refused = append(r.refused, refused{name, fmt.Sprintf("resource %q: %s", name, why)})
}

// nameIn finds the name of a resource that does not decode; "" if it cannot.
func (o *Origin) nameIn(typeURL string, raw json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	text := func(keys ...string) (s string) {
		for _, key := range keys {
			if json.Unmarshal(fields[key], &s) == nil && s != "" {
				return s
			}
		}
		return ""
	}
	if text("@type") == resourceType {
		return text("name")
	}
	m, err := o.cfg.Types.FindMessageByURL(typeURL)
	if err != nil {
		return text("name")
	}
	n := protoreflect.FieldNumber(1)
	if field, configured := o.cfg.NameFields[typeURL]; configured {
		n = protoreflect.FieldNumber(field)
	}
	f := m.Descriptor().Fields().ByNumber(n)
	if f == nil {
		return ""
	}
	return text(f.JSONName(), string(f.Name()))
}

// update checks a response as one from the wire (RELAY-30), and adds the resources that did not
// decode.
func (o *Origin) update(lane *relay.Lane, r *response) (u xds.Update, reject *xds.RejectError, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading a response panicked: %v", p)
		}
	}()
	if r.over > 0 {
		why := fmt.Sprintf("%d resources are more than the %d of origins[].limits.resources", r.over, o.table.Elements())
		u = xds.Update{TypeURL: r.typeURL, Full: true, Version: r.version, Wire: true, Bad: true, Unread: true, Over: true}
		return u, &xds.RejectError{TypeURL: r.typeURL, Reasons: []string{why}, Limit: xds.LimitResources}, nil
	}
	parsed, err := xds.ParseWithin(r.raw, false, o.table.Elements())
	if err != nil {
		return u, nil, err
	}
	if lane != nil {
		lane.FindRepeats(parsed)
	}
	u, reject = o.cfg.NameFields.Accept(parsed, o.cfg.NameBytes)
	if len(r.refused) == 0 {
		return u, reject, nil
	}
	if reject == nil {
		reject = &xds.RejectError{TypeURL: u.TypeURL}
	}
	u.Bad, u.Full, u.Heartbeats = true, true, false
	for _, x := range r.refused {
		if x.name == "" || len(reject.Reasons) >= maxReasons {
			u.Unread = true
		} else {
			u.Refused, u.Reasons = append(u.Refused, xds.NameKey(x.name)), append(u.Reasons, x.reason)
		}
		if len(reject.Reasons) < maxReasons {
			reject.Reasons = append(reject.Reasons, x.reason)
		}
	}
	return u, reject, nil
}
