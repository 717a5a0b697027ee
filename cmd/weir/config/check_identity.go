package config

import (
	"fmt"
	"slices"
	"strings"
)

// identities warns of group keys with an identity that no listener can tell.
func (k checker) identities(c *Config) {
	for i := range c.Origins {
		o := &c.Origins[i]
		term := slices.Index(o.GroupBy, "identity")
		if term < 0 || o.Files != nil {
			continue
		}
		at := fmt.Sprintf("origins[%d].group_by[%d]", i, term)
		if !slices.ContainsFunc(c.Listeners, tellsIdentities) {
			k.warnf(at, "all clients will be anonymous, and one group: no listener has tls.client_ca, and none is a Unix socket")
		}
	}
}

// tellsIdentities reports whether clients of a listener are more than anonymous.
func tellsIdentities(l Listener) bool {
	return l.TLS.ClientCA != "" || strings.HasPrefix(l.Address, "unix:")
}
