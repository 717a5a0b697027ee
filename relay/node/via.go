package node

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ViaKey is the gRPC metadata key under which each relay that a stream passes adds its instance
// name, in order (RELAY-87).
const ViaKey = "weir-via"

// GroupKey is the gRPC metadata key under which a stream between tiers names the group that it
// joins (package relay, tier.go). Only the server of tiers reads it, which no other process can
// reach.
const GroupKey = "weir-group"

// MaxHops is how many relays a stream may have passed.
const MaxHops = 4

// ViaName returns an instance name in the form used under ViaKey: in few characters, so that
// proxies accept it, and without commas, which some use to join values.
func ViaName(instance string) string { return url.PathEscape(instance) }

// ParseVia parses the values of ViaKey.
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
	// viaRefused begins the text of CheckVia's errors, by which the refused relay recognises them.
	viaRefused = ViaKey + ": "
	// passedBefore follows the name of a relay that the stream has passed before.
	passedBefore = " has been passed before"
)

// CheckVia returns an error if a stream that passed the relays of via must not pass this instance
// (RELAY-87).
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

// LoopRefused reports whether a text is an error of CheckVia.
func LoopRefused(message string) bool { return strings.HasPrefix(message, viaRefused) }

// LoopedAt returns the name of the relay that was passed before, from the text of an error of
// CheckVia; "": the path was too long.
func LoopedAt(message string) string {
	name, _, passed := strings.Cut(strings.TrimPrefix(message, viaRefused), passedBefore)
	if !passed {
		return ""
	}
	return name
}
