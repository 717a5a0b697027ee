package file

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// deterministic encodes equal messages as equal bytes, whichever format they were written in.
var deterministic = proto.MarshalOptions{Deterministic: true}

// add adds one resource, bare or wrapped. want is the type that the response states for all, or "".
func (p *parser) add(a *anypb.Any, want string, at position, path string) {
	typeURL := fullType(a.GetTypeUrl())
	if typeURL != xds.ResourceType {
		if p.typeOK(typeURL, want, at, path) {
			p.accept(typeURL, encode(typeURL, typeURL, a.GetValue()), at, path)
		}
		return
	}
	var r discoveryv3.Resource
	if err := xds.Unmarshal(a.GetValue(), &r, maxDecoded); err != nil {
		p.fail(at, path, "the wrapper does not decode: %s", descriptors.Bare(err))
		return
	}
	p.wrapped(&r, want, at, path)
}

func (p *parser) typeOK(typeURL, want string, at position, path string) bool {
	switch {
	case typeURL == "":
		p.fail(at, path, "has no type")
	case want != "" && typeURL != fullType(want):
		p.fail(at, path, "has type %s, but the response says %s for all", typeURL, want)
	default:
		return true
	}
	return false
}

func (p *parser) wrapped(r *discoveryv3.Resource, want string, at position, path string) {
	if r.GetResource() == nil {
		p.fail(at, path, "wraps nothing; a file cannot send heartbeats")
		return
	}
	r.Resource.TypeUrl = fullType(r.Resource.TypeUrl)
	typeURL := r.Resource.TypeUrl
	if strings.HasSuffix(typeURL, "Collection") {
		p.collection(r.Resource, want, at, path)
		return
	}
	if !p.typeOK(typeURL, want, at, path) {
		return
	}
	if r.GetName() == "" && r.GetResourceName().GetName() == "" {
		p.fail(at, path, "the wrapper has no name")
		return
	}
	b, err := deterministic.Marshal(r)
	if err != nil {
		p.fail(at, path, "cannot be encoded: %s", descriptors.Bare(err))
		return
	}
	p.accept(typeURL, encode(typeURL, xds.ResourceType, b), at, path)
}

// collection adds the inline entries of a list collection (FILE-7). All collection messages have
// the entries in field 1, like that of endpoints.
func (p *parser) collection(a *anypb.Any, want string, at position, path string) {
	var c endpointv3.LbEndpointCollection
	if err := xds.Unmarshal(a.GetValue(), &c, maxDecoded); err != nil {
		p.fail(at, path, "the collection does not decode: %s", descriptors.Bare(err))
		return
	}
	for i, e := range c.GetEntries() {
		path := fmt.Sprintf("%s entry %d", path, i)
		inline, ok := e.GetResourceSpecifier().(*xdscorev3.CollectionEntry_InlineEntry_)
		if !ok {
			p.fail(at, path, "is a locator; a file must hold its entries inline")
			continue
		}
		x := inline.InlineEntry
		p.wrapped(&discoveryv3.Resource{Name: x.GetName(), Version: x.GetVersion(), Resource: x.GetResource()},
			want, at, path)
	}
}

// encode makes a DiscoveryResponse of one resource.
func encode(typeURL, anyType string, value []byte) []byte {
	anySize := protowire.SizeTag(1) + protowire.SizeBytes(len(anyType)) +
		protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	b := make([]byte, 0, anySize+len(typeURL)+16)
	b = protowire.AppendTag(b, 2, protowire.BytesType) // resources
	b = protowire.AppendVarint(b, uint64(anySize))
	b = xds.AppendString(b, 1, anyType)                // type_url
	b = protowire.AppendTag(b, 2, protowire.BytesType) // value
	b = protowire.AppendBytes(b, value)
	return xds.AppendString(b, 4, typeURL) // that of the response
}

// fullType returns a type URL as the table knows it: people omit the prefix.
func fullType(typeURL string) string {
	if typeURL == "" || strings.Contains(typeURL, "/") {
		return typeURL
	}
	return xds.TypePrefix + typeURL
}

// version returns the version of a resource that states none.
func version(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}
