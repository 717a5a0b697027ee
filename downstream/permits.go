package downstream

import (
	"weak"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/intern"
)

// Clients of one identity have the same allowances, and all who may have the same by the same rules
// have one permit (TestRolesSharePermits). To find one costs far less than to make it. What no
// client has any more is dropped, so clients that come and go with ever new identities leave
// nothing (TestIdentitiesLeaveNothing).
var (
	identities = intern.New[identityKey, authz.Allowances]()
	permits    = intern.New[permitKey, relay.Permit]()
)

type identityKey struct {
	rules              weak.Pointer[authz.Rules]
	identity, listener string
}

type permitKey struct {
	rules weak.Pointer[authz.Rules]
	key   string
}

// allowancesOf are the rules for an identity at a listener.
func allowancesOf(rules *authz.Rules, identity, listener string) *authz.Allowances {
	key, same := identityKey{weak.Make(rules), identity, listener}, func(*authz.Allowances) bool { return true }
	if a := identities.Find(key, same); a != nil {
		return a
	}
	return identities.Put(key, rules.For(identity, listener), same)
}

// permitOf is the permit of the rules that hold; nil: everything.
func permitOf(h authz.Held) *relay.Permit {
	if h.All() {
		return nil
	}
	key, same := permitKey{weak.Make(h.Rules()), h.Key()}, func(*relay.Permit) bool { return true }
	if p := permits.Find(key, same); p != nil {
		return p
	}
	a := h.Permit()
	return permits.Put(key, relay.NewPermit(a.Key(), a.Allows, a.Some), same)
}
