package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/descriptors"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// deterministic encodes equal messages as equal bytes.
var deterministic = proto.MarshalOptions{Deterministic: true, AllowPartial: true}

// maxReasons bounds the error text of a bad response, as in xds.Accept.
const maxReasons = 100

// response is a decoded body.
type response struct {
	typeURL, version, nonce, identifier string
	raw                                 []byte // a DiscoveryResponse of the resources that decode
	refused                             []refused
	over                                int    // how many resources it has, if that is too many, and so none is read
	timed                               bool   // a resource has a TTL
	loose                               string // the first form that is not canonical JSON (FILE-1)
}

// refused is a resource that does not decode.
type refused struct {
	name   string // "" if it cannot be found
	reason string
}

// decodedLeast is how much memory, in bytes, a part of a response may take that is decoded at a
// time, in addition to Config.MaxMessage: a resource, or all but the resources. Of assignments the
// default lets 40,000 endpoints pass.
const decodedLeast = 16 << 20

// decode decodes a part of the response, but no JSON that costs far more than its size.
func (o *Origin) decode(r *response, text []byte, m proto.Message) error {
	forms, err := o.cfg.Types.Unmarshal(text, m, xds.JSONBound{Depth: xds.MaxJSONDepth, Memory: decodedLeast + o.cfg.MaxMessage})
	if len(forms) > 0 && r.loose == "" {
		r.loose = forms[0].What
	}
	return err
}

// read reads the answer to a poll, or passes on why there is none. The response is nil if nothing
// has changed. The error is a *failure, or one that the poll was ended with.
func (o *Origin) read(ctx context.Context, s *server, m *discoveryv3.DiscoveryRequest, a *answer, err error) (*response, error) {
	switch {
	case err != nil:
		return nil, err
	case a.unchanged && m.GetVersionInfo() == "":
		return nil, &failure{fault: ownFault, reason: upstream.FailedBadResponse, err: errors.New(s.url + " answers 304 to a poll without a version")}
	case a.unchanged:
		return nil, nil
	}
	r, err := o.parse(ctx, m.GetTypeUrl(), a.body)
	if err != nil {
		return nil, &failure{fault: unclear, reason: upstream.FailedBadResponse, err: errors.New("a response of " + s.url + " " + err.Error())}
	}
	return r, nil
}

// parse decodes the JSON of a DiscoveryResponse. An error means that it is none, or that ctx has
// ended. A panic over a peer's bytes costs that response and nothing else (ERR-11).
func (o *Origin) parse(ctx context.Context, typeURL string, data []byte) (r *response, err error) {
	defer upstream.Survive(&err)
	if err := json.Unmarshal(data, &struct{}{}); err != nil {
		return nil, fmt.Errorf("is not a DiscoveryResponse in JSON: %w", err)
	}
	rest, listed, lists := withoutResources(data)
	var head discoveryv3.DiscoveryResponse
	r = &response{typeURL: typeURL}
	if err := o.decode(r, rest, &head); err != nil {
		return nil, fmt.Errorf("is not a DiscoveryResponse: %s", descriptors.Bare(err))
	}
	if !lists && head.GetVersionInfo() == "" {
		return nil, errors.New("says neither a version nor resources, so it is not taken for an empty set")
	}
	if t := head.GetTypeUrl(); t != "" && t != typeURL {
		return nil, fmt.Errorf("is of type %s, not %s", t, typeURL)
	}
	head.TypeUrl = typeURL
	r.version, r.nonce, r.identifier = head.GetVersionInfo(), head.GetNonce(), head.GetControlPlane().GetIdentifier()
	if n := elements(listed); n > o.table.Elements() {
		r.over = n
		return r, nil
	}
	if r.raw, err = deterministic.Marshal(&head); err != nil {
		return nil, err
	}
	return r, o.resources(ctx, r, typeURL, listed)
}

// withoutResources returns a response with an empty list of resources, and the list. lists: there
// is one. One resource that is in no list is a list of one (FILE-1).
func withoutResources(data []byte) (rest, listed []byte, lists bool) {
	for f := xds.WalkJSON(data); f.Next(); {
		if string(f.Name) != "resources" || len(f.Value) == 0 || f.Value[0] != '[' && f.Value[0] != '{' {
			continue
		}
		if listed = f.Value; listed[0] == '{' {
			listed = slices.Concat([]byte("["), listed, []byte("]"))
		}
		return slices.Concat(data[:f.End()-len(f.Value)], []byte("[]"), data[f.End():]), listed, true
	}
	return data, nil, false
}

// resources adds the resources of a list, one by one: a resource that does not decode is refused,
// and what decoding takes is needed for one at a time.
func (o *Origin) resources(ctx context.Context, r *response, typeURL string, listed []byte) error {
	for f, i := xds.WalkJSON(listed), 0; f.Next(); i++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var a anypb.Any
		if err := o.decode(r, f.Value, &a); err != nil {
			r.refuse(i, o, typeURL, f.Value, err)
			continue
		}
		encoded, err := deterministic.Marshal(&a)
		if err != nil {
			return err
		}
		r.timed = r.timed || hasTTL(&a)
		r.raw = protowire.AppendBytes(protowire.AppendTag(r.raw, xds.FieldResources, protowire.BytesType), encoded)
	}
	return nil
}

// elements counts the elements of a list. An empty one takes three bytes of it, and fifty times as
// much once it is refused or decoded.
func elements(listed []byte) (n int) {
	for f := xds.WalkJSON(listed); f.Next(); {
		n++
	}
	return n
}

// unread says why an Any does not decode. It quotes nothing of secrets (RELAY-76).
func (r *response) unread(err error) string {
	text, bound := descriptors.Bare(err), (*xds.BoundError)(nil)
	switch {
	case errors.As(err, &bound):
		return err.Error()
	case strings.Contains(text, "unable to resolve"):
		return text + "; its descriptors are not known: give them in types"
	case xds.IsSecret(r.typeURL):
		return "is not what belongs here; it is not repeated, since it is a secret"
	}
	return text
}

// hasTTL reports whether a resource is a wrapper with a TTL.
func hasTTL(a *anypb.Any) bool {
	var w discoveryv3.Resource
	return a.GetTypeUrl() == xds.ResourceType && proto.Unmarshal(a.GetValue(), &w) == nil && w.GetTtl() != nil
}

// refuse records why a resource does not decode. Beyond maxReasons it is enough to know that there
// are more.
func (r *response) refuse(i int, o *Origin, typeURL string, raw []byte, why error) {
	if len(r.refused) > maxReasons {
		return
	}
	text := r.unread(why)
	text = strings.ToValidUTF8(text[:min(len(text), xds.MaxErrorText)], "?")
	name := o.nameIn(typeURL, raw)
	if name == "" {
		r.refused = append(r.refused, refused{reason: fmt.Sprintf("resources[%d]: %s", i, text)})
		return
	}
	r.refused = append(r.refused, refused{name, fmt.Sprintf("resource %s: %s", xds.Quote(name), text)})
}

// nameIn finds the name of a resource that does not decode; "" if it cannot.
func (o *Origin) nameIn(typeURL string, raw []byte) string {
	if textIn(raw, "@type") == xds.ResourceType {
		return textIn(raw, "name")
	}
	m, err := o.cfg.Types.FindMessageByURL(typeURL)
	if err != nil {
		return textIn(raw, "name")
	}
	n := protoreflect.FieldNumber(1)
	if field, configured := o.cfg.NameFields[typeURL]; configured {
		n = protoreflect.FieldNumber(field)
	}
	f := m.Descriptor().Fields().ByNumber(n)
	if f == nil {
		return ""
	}
	return textIn(raw, f.JSONName(), string(f.Name()))
}

// textIn returns the first text that an object has under one of some names.
func textIn(object []byte, names ...string) string {
	for f := xds.WalkJSON(object); f.Next(); {
		if slices.Contains(names, string(f.Name)) {
			if text, ok := xds.JSONString(f.Value); ok && text != "" {
				return text
			}
		}
	}
	return ""
}

// update checks a response as one from the wire (RELAY-30), and adds the resources that did not
// decode.
func (o *Origin) update(lane *relay.Lane, r *response) (u xds.Update, reject *xds.RejectError, err error) {
	defer upstream.Survive(&err)
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
