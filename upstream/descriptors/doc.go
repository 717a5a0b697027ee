// Package descriptors has the message descriptors that weir needs to read and write resources as
// JSON, YAML and text: those linked in (messages.go), and those of descriptor files that an
// operator supplies ("types" in the config file).
//
// Everywhere else weir forwards payloads as opaque bytes. Proto3 JSON cannot be opaque: a
// google.protobuf.Any is written with the fields of the message in it (REST-9).
//
// A [Types] is immutable and has no lock. [Read] reads a descriptor file once; a change of the file
// is seen by the next Read. A broken file is an error that names file and message, and none of it
// is used. A file may have up to 64 MiB, and what it decodes to is bounded before it is decoded
// (TestHostileDescriptors).
//
// # Who imports it
//
// Packages upstream/file, upstream/rest and cmd/weir.
package descriptors
