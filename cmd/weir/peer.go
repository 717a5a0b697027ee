package main

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/client"
)

// peer holds the flags of commands that are an xDS client: the server, and the client's node.
type peer struct {
	dialect             string
	nodeID, nodeCluster string
	metadata, headers   []string
	params              []string
	tls                 security
}

func (p *peer) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.dialect, "dialect", string(client.Delta), "`delta or sotw`")
	f.StringVar(&p.nodeID, "node-id", "", "the node `id` to present")
	f.StringVar(&p.nodeCluster, "node-cluster", "", "the node `cluster` to present")
	f.StringArrayVar(&p.metadata, "metadata", nil, "`KEY=VALUE` of the node's metadata, a string; may be repeated")
	f.StringArrayVar(&p.params, "param", nil, "`KEY=VALUE`, a dynamic parameter to ask with; may be repeated")
	f.StringArrayVar(&p.headers, "header", nil, "`KEY=VALUE` sent as a header; may be repeated")
	p.tls.register(f)
	complete(cmd, "dialect", string(client.Delta), string(client.SotW))
}

// security holds the flags for TLS and tokens.
type security struct {
	client.TLS
	on bool
}

func (s *security) register(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "tls", false, "TLS, by the system's authorities unless --ca is given")
	f.StringVar(&s.CA, "ca", "", "the authorities, a PEM `file`; this or another TLS flag makes the connection TLS")
	f.StringVar(&s.Cert, "cert", "", "the client certificate, a PEM `file`")
	f.StringVar(&s.Key, "key", "", "its key, a PEM `file`")
	f.StringVar(&s.ServerName, "server-name", "", "the `name` to verify instead of the address's host")
}

// enabled reports whether a flag asks for TLS.
func (s *security) enabled() bool { return s.on || s.TLS != (client.TLS{}) }

// config returns the client configuration of the flags, for one address.
func (p *peer) config(address string) (client.Config, error) {
	dialect := client.Dialect(p.dialect)
	if dialect != client.Delta && dialect != client.SotW {
		return client.Config{}, usageError{fmt.Errorf("--dialect %q is neither delta nor sotw", p.dialect)}
	}
	metadata, err := pairs("metadata", p.metadata)
	if err != nil {
		return client.Config{}, err
	}
	headers, err := pairs("header", p.headers)
	if err != nil {
		return client.Config{}, err
	}
	node := &corev3.Node{Id: p.nodeID, Cluster: p.nodeCluster, UserAgentName: "weir-get"}
	if len(metadata) > 0 {
		node.Metadata = &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	}
	for k, v := range metadata {
		node.Metadata.Fields[k] = structpb.NewStringValue(v)
	}
	config := client.Config{Address: address, Dialect: dialect, Node: node, Headers: headers}
	if p.tls.enabled() {
		config.TLS = &p.tls.TLS
	}
	return config, nil
}

// subscription returns the subscription to names of a type with the flags' parameters.
func (p *peer) subscription(typeURL string, names []string) (client.Subscription, error) {
	params, err := pairs("param", p.params)
	return client.Subscription{TypeURL: typeURL, Names: names, Params: params}, err
}

func pairs(flag string, values []string) (map[string]string, error) {
	m := make(map[string]string)
	for _, s := range values {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, usageError{fmt.Errorf("--%s %q: write KEY=VALUE", flag, s)}
		}
		m[k] = v
	}
	return m, nil
}
