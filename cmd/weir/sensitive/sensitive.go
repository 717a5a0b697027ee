package sensitive

import (
	"bytes"
	"sync"

	"github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/xds"
)

// Holds reports whether a resource, an encoded google.protobuf.Any, has a value in it that Envoy's
// API marks as sensitive. The name of a file or of an environment variable is none: a listener
// whose key is in a file of the proxy holds no key. Nor are user names and the settings of
// ext_authz (noKey). What does not decode may hold anything, and counts. So does what is nested
// more deeply than xds.MaxDepth, which an older build may have accepted and written to disk.
func Holds(resource []byte) bool { return hasPEM(resource) || holdsAny(resource, false, 1) }

// plan is what there is to look at in messages of one type.
type plan struct {
	// leads: something sensitive can be in it, or a google.protobuf.Any.
	leads bool
	// dataSource: it is a DataSource, of which a name of a file or a variable is not sensitive.
	dataSource bool
	steps      map[protowire.Number]step
}

// step is what there is to look at in one field. Fields of numbers have none: a number is no key.
type step struct {
	sensitive bool
	any       bool
	message   *plan // nil: the field is a string or bytes
}

// Plans are made once for each type, with all types below it.
var (
	plansMu sync.Mutex
	plans   = map[protoreflect.FullName]*plan{}
)

const anyName = "google.protobuf.Any"

func planOf(d protoreflect.MessageDescriptor) *plan {
	plansMu.Lock()
	defer plansMu.Unlock()
	if p := plans[d.FullName()]; p != nil {
		return p
	}
	var fresh []*plan
	p := makePlan(d, &fresh)
	// Types contain one another, so this is repeated until nothing is added.
	for added := true; added; {
		added = false
		for _, x := range fresh {
			if !x.leads && x.leadsNow() {
				x.leads, added = true, true
			}
		}
	}
	return p
}

func (p *plan) leadsNow() bool {
	for _, s := range p.steps {
		if s.sensitive || s.any || s.message != nil && s.message.leads {
			return true
		}
	}
	return false
}

// noKey are fields that are marked, and are blanked, and have no key or password in them. Whoever
// uses ext_authz has its settings in most routes.
var noKey = map[protoreflect.FullName]bool{
	"envoy.extensions.filters.http.ext_authz.v3.CheckSettings.context_extensions":                   true,
	"envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.downstream_auth_username":           true,
	"envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions.auth_username":            true,
	"envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions.Credential.auth_username": true,
}

// makePlan makes the plan of a type and of all types below it. The caller holds plansMu.
func makePlan(d protoreflect.MessageDescriptor, fresh *[]*plan) *plan {
	name := d.FullName()
	if p := plans[name]; p != nil {
		return p
	}
	p := &plan{
		steps:      map[protowire.Number]step{},
		dataSource: name == "envoy.config.core.v3.DataSource" || name == "envoy.api.v2.core.DataSource",
	}
	plans[name] = p
	*fresh = append(*fresh, p)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		s := step{sensitive: isSensitive(f) && !noKey[f.FullName()]}
		switch f.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
		case protoreflect.MessageKind, protoreflect.GroupKind: // the entry of a map is a message, too
			if s.any = f.Message().FullName() == anyName; !s.any {
				s.message = makePlan(f.Message(), fresh)
			}
		default:
			continue
		}
		p.steps[f.Number()] = s
	}
	return p
}

// The fields of a DataSource that have a value in them, and not the name of its place.
const (
	inlineBytes  protowire.Number = 2
	inlineString protowire.Number = 3
)

// holds looks at an encoded message at a depth. all: it is sensitive as a whole, so each string in
// it counts.
func (p *plan) holds(message []byte, all bool, depth int) bool {
	if !all && !p.leads {
		return false
	}
	if depth > xds.MaxDepth {
		return true
	}
	f := xds.Walk(message)
	for f.Next() {
		if len(f.Bytes) == 0 {
			continue
		}
		s, known := p.steps[f.Number]
		whole := all || s.sensitive
		switch {
		case p.dataSource && f.Number != inlineBytes && f.Number != inlineString:
		case !known:
			// of a later API, or packed numbers
			if all && !p.dataSource {
				return true
			}
		case s.any:
			if holdsAny(f.Bytes, whole, depth+1) {
				return true
			}
		case s.message != nil:
			if s.message.holds(f.Bytes, whole, depth+1) {
				return true
			}
		case whole:
			return true
		}
	}
	return f.Err() != nil
}

// holdsAny is holds of an encoded google.protobuf.Any.
func holdsAny(message []byte, all bool, depth int) bool {
	if depth > xds.MaxDepth {
		return true
	}
	var url string
	var value []byte
	f := xds.Walk(message)
	for f.Next() {
		switch {
		case f.IsBytes(1):
			url = string(f.Bytes)
		case f.IsBytes(2):
			value = f.Bytes
		}
	}
	if f.Err() != nil {
		return true
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return all && len(value) > 0
	}
	if t.Descriptor().FullName() == anyName {
		return holdsAny(value, all, depth+1)
	}
	return planOf(t.Descriptor()).holds(value, all, depth+1)
}

var (
	pem       = []byte(" PRIVATE KEY-----")
	base64PEM = []byte("LS0tLS1CRUdJTi") // -----BEGIN, as far as it does not depend on what follows
	// What follows base64PEM in a certificate, and in a public key.
	base64Cert   = []byte("BDRVJUSUZJ")
	base64Public = []byte("BQVUJMSUMg")
)

// hasPEM reports whether the bytes of a private key in PEM form are anywhere in a resource.
func hasPEM(resource []byte) bool {
	if bytes.Contains(resource, pem) {
		return true
	}
	for rest := resource; ; {
		i := bytes.Index(rest, base64PEM)
		if i < 0 {
			return false
		}
		rest = rest[i+len(base64PEM):]
		if !bytes.HasPrefix(rest, base64Cert) && !bytes.HasPrefix(rest, base64Public) {
			return true
		}
	}
}

// blanked replaces sensitive values.
const blanked = "[blanked]"

// maxShown bounds the memory, in bytes, that a resource may need when it is decoded to be shown. A
// route configuration of 10,000 routes needs a fifth of it.
const maxShown = 64 << 20

// Blank blanks what Envoy's API marks as sensitive: private keys, passwords and the like, also
// inside listeners and clusters. Messages of unknown types stay as they are. A resource that is too
// large or too deep to be decoded is replaced by a google.protobuf.StringValue that says so.
func Blank(body *anypb.Any) {
	_, err := xds.Known.Any([]byte(body.GetTypeUrl()), body.GetValue(), xds.Bound{Memory: maxShown, Follow: true})
	if err != nil {
		_ = body.MarshalFrom(wrapperspb.String("[not shown: " + err.Error() + "]")) // it has no error
		return
	}
	blank(body)
}

// blank is Blank for what can be decoded.
func blank(body *anypb.Any) {
	m, err := body.UnmarshalNew()
	if err != nil {
		return
	}
	blankFields(m.ProtoReflect(), false)
	if value, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err == nil {
		body.Value = value
	}
}

// blankFields blanks the sensitive fields of m at any depth; all: every field.
func blankFields(m protoreflect.Message, all bool) {
	if body, ok := m.Interface().(*anypb.Any); ok {
		if all {
			proto.Reset(body) // a type and a mask would be no message
			return
		}
		blank(body)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		hide := all || isSensitive(f)
		switch {
		case f.IsMap():
			blankMap(m, f, v.Map(), hide)
		case f.IsList() && f.Message() == nil:
			if hide {
				m.Clear(f)
			}
		case f.IsList():
			for i := range v.List().Len() {
				blankFields(v.List().Get(i).Message(), hide)
			}
		case f.Message() != nil:
			blankFields(v.Message(), hide)
		case hide:
			blankScalar(m, f)
		}
		return true
	})
}

func blankMap(m protoreflect.Message, f protoreflect.FieldDescriptor, entries protoreflect.Map, hide bool) {
	if hide {
		m.Clear(f) // keys may reveal as much as values
		return
	}
	if f.MapValue().Message() == nil {
		return
	}
	entries.Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
		blankFields(v.Message(), false)
		return true
	})
}

// blankScalar shows that there was a value, if the type allows that.
func blankScalar(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch f.Kind() {
	case protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(blanked))
	case protoreflect.BytesKind:
		m.Set(f, protoreflect.ValueOfBytes([]byte(blanked)))
	default:
		m.Clear(f)
	}
}

func isSensitive(f protoreflect.FieldDescriptor) bool {
	options, ok := f.Options().(*descriptorpb.FieldOptions)
	return ok && proto.HasExtension(options, annotations.E_Sensitive) &&
		proto.GetExtension(options, annotations.E_Sensitive).(bool)
}
