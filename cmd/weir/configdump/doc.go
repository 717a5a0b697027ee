// Package configdump makes of a client's status what the client's own admin port shows: an
// envoy.admin.v3.ConfigDump.
//
//	ClientConfig ── item ──┬─ lds cds rds srds eds ecds sds ─→ its XxxConfigDump
//	                       └─ other types ──────────────────→ ClientConfig of the rest
//
// Envoy has no place in its dump for the other types, such as vhds, rtds and leds: they come last,
// in the form of the client status discovery service.
//
// An item without a body has a place only where Envoy's message has a name beside the body: as a
// listener, a scope of routes and a secret. Bodies are as the status has them: blanked, and of
// secrets none.
//
// The package asks nothing and keeps nothing.
//
// # Who imports it
//
// Package cmd/weir.
package configdump
