// Package examples holds sample configurations, for people and for `weir config example`.
//
// # Who imports it
//
// Package cmd/weir.
package examples

import _ "embed" // for Full

// Full is full.yaml: every key that works, at its default and explained.
//
//go:embed full.yaml
var Full []byte
