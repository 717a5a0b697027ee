// Package descriptors knows the messages that JSON, YAML and text can be read as, and written of:
// those linked in (messages.go), and those of descriptor files that an operator supplies, "types"
// in the config file.
//
// Everything else in weir forwards payloads as opaque bytes. Proto3 JSON cannot be opaque: a
// google.protobuf.Any is written with the fields of what it holds (REST-9).
//
// [Types] is immutable, so it needs no lock. A descriptor file is read once, by [Read]; that it
// changed is seen at the next Read. A broken one is an error that names file and message, and
// nothing of it is used. It is bounded by 64 MiB.
package descriptors
