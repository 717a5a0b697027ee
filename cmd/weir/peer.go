package main

import (
	"fmt"
	"net"
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
	choiceFlag(cmd, &p.dialect, "dialect", "", "xDS `variant`: delta or sotw", dialects...)
	f.StringVar(&p.nodeID, "node-id", "", "node `id` to send")
	f.StringVar(&p.nodeCluster, "node-cluster", "", "node `cluster` to send")
	f.StringArrayVar(&p.metadata, "metadata", nil, "string field of the node metadata, `KEY=VALUE`; may be repeated")
	f.StringArrayVar(&p.params, "param", nil, "dynamic parameter of the request, `KEY=VALUE`; may be repeated")
	f.StringArrayVar(&p.headers, "header", nil, "request header, `KEY=VALUE`; may be repeated")
	p.tls.register(f)
}

// security holds the flags for TLS and tokens.
type security struct {
	client.TLS
	on bool
}

func (s *security) register(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "tls", false, "use TLS, with the authorities of the system unless --ca is set")
	f.StringVar(&s.CA, "ca", "", "PEM `file` of certificate authorities; implies --tls")
	f.StringVar(&s.Cert, "cert", "", "PEM `file` of the client certificate; implies --tls")
	f.StringVar(&s.Key, "key", "", "PEM `file` of its private key")
	f.StringVar(&s.ServerName, "server-name", "", "`name` that the server certificate must have, if it is not the host of the address")
}

// enabled reports whether a flag asks for TLS.
func (s *security) enabled() bool { return s.on || s.TLS != (client.TLS{}) }

// dialects are those that a server can be asked in, the default first.
var dialects = []string{string(client.Delta), string(client.SotW)}

// isAddress reports whether a server can be reached by the text.
func isAddress(text string) bool {
	_, _, err := net.SplitHostPort(text)
	return err == nil || strings.HasPrefix(text, "unix:///")
}

// config returns the client configuration of the flags, for one address.
func (p *peer) config(address string) (client.Config, error) {
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
	config := client.Config{Address: address, Dialect: client.Dialect(p.dialect), Node: node, Headers: headers}
	if p.tls.enabled() {
		config.TLS = &p.tls.TLS
	}
	return config, nil
}

// silence is the error of a server that answered nothing. Many answer only nodes that they know.
func (p *peer) silence(address, within string) error {
	try := "try --node-id"
	if p.nodeID != "" {
		try = "try another --node-id or --node-cluster"
	}
	return fmt.Errorf("%s: no answer%s for node id %q; %s", address, within, p.nodeID, try)
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
