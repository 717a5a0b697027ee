package downstream

import (
	"weak"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/intern"
)

// permits are those that clients have now: all who may have the same by the same rules have one
// (TestRolesSharePermits). To find it costs far less than to make it. What nobody has any more is
// dropped, so clients that come and go with ever new identities leave nothing
// (TestIdentitiesLeaveNoPermits).
var permits = intern.New[permitKey, relay.Permit]()

type permitKey struct {
	rules weak.Pointer[authz.Rules]
	key   string
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
	return permits.Put(key, relay.NewPermit(a.Key(), a.Allows), same)
}
