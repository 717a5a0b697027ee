package config

import (
	"fmt"
	"slices"
)

// Sink is a directory to which weir writes what a client would be sent, for an Envoy that reads its
// configuration by path_config_source.
type Sink struct {
	// Path is the directory. It is made if it does not exist, and must be the sink's only.
	// Required.
	Path string `yaml:"path" path:"file"`
	// Origin is the origin of the resources. Default: empty, the origin marked default.
	Origin string `yaml:"origin"`
	// Node is the node that the sink presents like a client; it decides the group.
	Node SinkNode `yaml:"node"`
	// Types lists the types that are written: lds, cds and srds as a whole; eds of the clusters in
	// cds, and rds of the listeners in lds; sds by the names in Secrets. Full type URLs after
	// Parse. Default: empty, cds, eds, lds and rds.
	Types []string `yaml:"types"`
	// Secrets are the names of the secrets that are written, to files that only weir's user can
	// read, of an origin with secrets: dedicated. Default: none.
	Secrets []string `yaml:"secrets"`
}

// SinkNode is the node of a sink.
type SinkNode struct {
	// ID is the node's id. Default: empty, weir's name.
	ID string `yaml:"id"`
	// Cluster is the node's cluster. Default: empty.
	Cluster string `yaml:"cluster"`
}

// SinkOrigin returns the origin of a sink.
func (c *Config) SinkOrigin(s *Sink) *Origin {
	for i := range c.Origins {
		if o := &c.Origins[i]; s.Origin == o.Name || s.Origin == "" && o.Default {
			return o
		}
	}
	return nil
}

func (k checker) sinks(c *Config) {
	paths := make(map[string]string)
	for i := range c.Sinks {
		s, path := &c.Sinks[i], fmt.Sprintf("sinks[%d]", i)
		if s.Path == "" {
			k.addf(path+".path", "is required")
		} else if first, taken := paths[s.Path]; taken {
			k.addf(path+".path", "is that of %s already", first)
		}
		paths[s.Path] = path
		k.types(path+".types", s.Types)
		o := c.SinkOrigin(s)
		if s.Origin != "" && o == nil {
			k.addf(path+".origin", "there is no origin %q", s.Origin)
		}
		if sds := shortNames["sds"]; o != nil && slices.Contains(s.Types, sds) && o.Secrets != SecretsDedicated {
			k.addf(path+".types", "secrets are not enabled for origin %q: it needs secrets: dedicated (RELAY-74)", o.Name)
		}
	}
}
