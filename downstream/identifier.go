package downstream

import (
	"encoding/json"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// hopKey is what this relay's name follows in the identifier of a control plane, or the member that
// has it if the identifier is a JSON object.
const hopKey = "weir"

// withHop is the identifier of a control plane with this relay's name: it grows by one `;weir=` for
// each hop (STREAM-10, RELAY-90). If it is a JSON object, as istiod's, it is one afterwards, with
// the names in the member "weir"; all else in it stays as it is.
func withHop(identifier, instance string) string {
	plain, text := identifier+";"+hopKey+"="+instance, strings.TrimSpace(identifier)
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return plain
	}
	name, _ := json.Marshal(instance) // a text always marshals
	end, before := len(text)-1, ""
	for f := xds.WalkJSON([]byte(text)); f.Next(); before = "," {
		switch {
		case string(f.Name) != hopKey:
		case f.Value[0] != '"': // not a relay's
			return plain
		default:
			return text[:f.End()-1] + ";" + hopKey + "=" + string(name[1:]) + text[f.End():]
		}
	}
	return text[:end] + before + `"` + hopKey + `":` + string(name) + text[end:]
}
