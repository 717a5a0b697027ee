package node

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ViaKey is the gRPC metadata in which each relay on the way of a stream has left its instance
// name, in order (RELAY-87).
const ViaKey = "weir-via"

// MaxHops is how many relays a stream may have come through.
const MaxHops = 4

// ViaName is an instance name as it stands in ViaKey: of few characters, so that no proxy stumbles
// over it, and without a comma, which some join several values with.
func ViaName(instance string) string { return url.PathEscape(instance) }

// ParseVia reads the values of ViaKey.
func ParseVia(values []string) (via []string) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				via = append(via, name)
			}
		}
	}
	return via
}

const (
	// viaRefused begins the words of CheckVia, by which the relay that is refused knows them.
	viaRefused = ViaKey + ": "
	// passedBefore follows the name of the relay that refuses what has come through it before.
	passedBefore = " has been passed before"
)

// CheckVia says what is wrong with a stream that has come through these relays to the one of that
// instance name (RELAY-87).
func CheckVia(via []string, instance string) error {
	if name := ViaName(instance); slices.Contains(via, name) {
		return fmt.Errorf("%s%s%s: the stream has come through %.200q, so the origins form a loop, or two relays have one instance name",
			viaRefused, name, passedBefore, strings.Join(via, ", "))
	}
	if len(via) > MaxHops {
		return fmt.Errorf("%sthe stream has come through more than %d relays: %.200q", viaRefused, MaxHops, strings.Join(via, ", "))
	}
	return nil
}

// LoopRefused reports whether these are the words of CheckVia.
func LoopRefused(message string) bool { return strings.HasPrefix(message, viaRefused) }

// LoopedAt is the name of the relay that has been passed before, by the words of CheckVia; "": the
// path was too long.
func LoopedAt(message string) string {
	name, _, passed := strings.Cut(strings.TrimPrefix(message, viaRefused), passedBefore)
	if !passed {
		return ""
	}
	return name
}
