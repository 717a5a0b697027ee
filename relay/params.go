package relay

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/node"
)

// nodeRules are what the origin learns of its clients' nodes.
func (cfg *OriginConfig) nodeRules(deployment string) node.Rules {
	return node.Rules{GroupBy: cfg.GroupBy, Mapped: cfg.FromNode, Canary: cfg.Canary, ID: cfg.NodeID, Cluster: cfg.NodeCluster, IdentityTo: cfg.IdentityTo, Deployment: deployment}
}

func (o *Origin) nodeRules() node.Rules { return o.config().nodeRules(o.table.config().Name) }

// OwnNode is the node that is presented upstream for clients that present none (RELAY-62).
func (o *Origin) OwnNode() *corev3.Node {
	_, up := o.nodeRules().Group(nil, "")
	return up
}

// Identified returns a client's own node as it is presented upstream (node.Rules.Identified).
func (o *Origin) Identified(n *corev3.Node, who string) *corev3.Node {
	return o.nodeRules().Identified(n, who)
}

// checkParams says what is wrong with the settings that have to do with parameters and identities;
// the error begins with the key.
func checkParams(cfg *OriginConfig) error {
	switch {
	case cfg.TP2 && cfg.IgnoreParams:
		return errors.New("dynamic_parameters.otherwise: the origin understands parameters, so none are ignored")
	case !cfg.TP2 && len(cfg.FromNode) > 0:
		return errors.New("dynamic_parameters.from_node: the origin is not known to understand parameters")
	case !cfg.TP2 && cfg.Share:
		return errors.New("share: the origin is not known to understand parameters")
	}
	rules := cfg.nodeRules("")
	if err := rules.CheckMapped(); err != nil {
		return fmt.Errorf("dynamic_parameters.from_node: %w", err)
	}
	if err := rules.CheckIdentityTo(); err != nil {
		return fmt.Errorf("identity_to: %w", err)
	}
	return nil
}

// Params are the parameters that plain names of a client have at the origin (node.Rules.Params).
// There are none at an origin that is not to see any (DYN-17).
func (o *Origin) Params(n *corev3.Node, typeURL string) constraints.Params {
	if !o.config().TP2 {
		return constraints.Params{}
	}
	return o.nodeRules().Params(n, typeURL)
}

// ParamsNode is as much of a node as Params looks at, for a stream to keep. It is nil if the
// origin's names have no parameters. It shares what it holds with n.
func (o *Origin) ParamsNode(n *corev3.Node) *corev3.Node {
	if !o.config().TP2 {
		return nil
	}
	return o.nodeRules().ParamsNode(n)
}

// TP2 reports whether the origin may be sent parameters (DYN-17).
func (o *Origin) TP2() bool { return o.config().TP2 }

// IgnoresParams reports whether the parameters that clients name are dropped, and not refused
// (DYN-18).
func (o *Origin) IgnoresParams() bool { return o.config().IgnoreParams }
