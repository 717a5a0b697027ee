package csds

import (
	"bytes"
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// encode returns an answer as JSON of at most so many bytes. It is made piece by piece, since a
// body may be far longer in JSON, and is the body of many items. Left out is what has no JSON:
// bodies of unknown types, whose items have the type anyway, and nodes with NaN or infinite numbers
// but for their names.
func encode(ctx context.Context, resp *statusv3.ClientStatusResponse, most int) ([]byte, error) {
	if len(resp.Config) == 0 {
		return []byte("{}"), nil
	}
	e := &encoder{most: most, bare: map[*anypb.Any]bool{}}
	e.out.WriteString(`{"config":[`)
	for i, c := range resp.Config {
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.config(ctx, c); err != nil {
			return nil, err
		}
	}
	e.out.WriteString("]}")
	return e.out.Bytes(), nil
}

// encoder is an answer while it is encoded.
type encoder struct {
	out  bytes.Buffer
	most int
	bare map[*anypb.Any]bool // bodies without JSON
}

// config adds a ClientConfig: what it has besides its items, and then these.
func (e *encoder) config(ctx context.Context, c *statusv3.ClientConfig) error {
	head, err := protojson.Marshal(&statusv3.ClientConfig{Node: c.Node, ClientScope: c.ClientScope})
	if err != nil {
		head, err = protojson.Marshal(&statusv3.ClientConfig{
			Node: &corev3.Node{Id: c.Node.GetId(), Cluster: c.Node.GetCluster()}, ClientScope: c.ClientScope,
		})
	}
	if err != nil || len(c.GenericXdsConfigs) == 0 {
		return e.add(head, err)
	}
	head = head[:len(head)-1] // its brace
	if len(head) > 1 {
		head = append(head, ',')
	}
	if err := e.add(append(head, `"genericXdsConfigs":[`...), nil); err != nil {
		return err
	}
	for i, it := range c.GenericXdsConfigs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.add(e.item(it)); err != nil {
			return err
		}
	}
	return e.add([]byte("]}"), nil)
}

// item returns an item, without its body if that has no JSON.
func (e *encoder) item(it *item) ([]byte, error) {
	if body := it.XdsConfig; body != nil && !e.bare[body] {
		text, err := protojson.Marshal(it)
		if err == nil {
			return text, nil
		}
		e.bare[body] = true
	}
	it.XdsConfig = nil // the answer is this request's alone
	return protojson.Marshal(it)
}

// add adds a piece, if it fits.
func (e *encoder) add(text []byte, err error) error {
	if err != nil {
		return err
	}
	if e.out.Len()+len(text) > e.most {
		return errTooLong
	}
	e.out.Write(text)
	return nil
}
