package config

import (
	"fmt"
	"slices"
)

// Sink is a directory to which weir writes the resources of a client, for an Envoy that reads its
// configuration by path_config_source.
type Sink struct {
	// Path is the directory, created if missing. Each sink needs its own. Required.
	Path string `yaml:"path" path:"file" required:"true"`
	// Origin is the origin of the resources. Default: empty, the origin marked default.
	Origin string `yaml:"origin"`
	// Node is the node that the sink presents, like a client. It decides the group.
	Node SinkNode `yaml:"node"`
	// Types are the types to write.
	//
	// lds, cds and srds are written whole; eds of the clusters in cds, and rds of the listeners in
	// lds; sds by the names in secrets. Full type URLs after Parse. Default: [cds, eds, lds, rds].
	Types []string `yaml:"types"`
	// Secrets are the names of secrets to write, of an origin with `secrets: dedicated`.
	//
	// Only weir's user can read the files. Default: none.
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
			k.addf(path+".path", "is already used by %s", first)
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
