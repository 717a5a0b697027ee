package relay

import (
	"maps"

	"github.com/weir-xds/weir/relay/xds"
)

// claims are what a client says it holds, until it is known whether that is so: the versions, by
// canonical name. The zero Digest is a version that is not known.
type claims struct {
	versions map[string]xds.Digest
	spelt    map[string]string // how the client spelt names, where that differs
}

// add takes in what a client states. If a name is given in two spellings with two versions, the
// client may hold either, so no version is recorded.
func (c *claims) add(name string, d xds.Digest) {
	key, spelt := xds.Spell(name)
	if was, twice := c.versions[key]; twice && was != d {
		d = xds.Digest{}
	}
	c.set(key, d, spelt)
}

func (c *claims) set(name string, d xds.Digest, spelt string) {
	if c.versions == nil {
		c.versions = map[string]xds.Digest{}
	}
	if c.versions[name] = d; spelt == "" {
		return
	}
	if c.spelt == nil {
		c.spelt = map[string]string{}
	}
	c.spelt[name] = spelt
}

// doubt makes a name be sent whatever the client says of it.
func (c *claims) doubt(name string) {
	if _, stated := c.versions[name]; stated {
		c.versions[name] = xds.Digest{}
	}
}

func (c *claims) clone() claims {
	return claims{versions: maps.Clone(c.versions), spelt: maps.Clone(c.spelt)}
}
