// Package config reads weir's configuration file.
//
// # What it is
//
// One YAML document becomes one [Config]: plain structs whose field comments are the manual. [Load]
// reads a file, [Parse] reads bytes. A missing value keeps the default of [Default]; only origins
// have none. It opens none of the files that the configuration names.
//
// # What a mistake does
//
// Nothing is guessed and nothing is ignored. Unknown and repeated keys, values of the wrong kind,
// variables that are not set, and contradictory settings are each a [Problem] with file, line,
// column and field. All of them are reported at once, sorted by line (TestFiveMistakes).
//
// # What is in a value
//
// ${NAME} and ${NAME:-fallback} are replaced inside scalar values, after the YAML was parsed: a
// variable can change a value, never the structure (scalar.go, TestEnvCannotChangeStructure). A
// relative path of a field with the tag path starts at the directory of the configuration file.
// After Parse paths are absolute (TestRelativePaths, TestPathsAreMarked).
//
// # What is made of the keys
//
// The tags of a field say what is known of its key (keys.go). By the tag reload CheckReload
// reports, line by line, which differences of two configurations need a restart, as those of keys
// without it do (reload.go, TestReloadKnowsTheKeys). Schema has each key with its comment for
// editors, and is made of the same structs by a test (TestSchemaIsMade, TestSchemaKnowsEveryKey).
// The reference of deploy/docs/configuration.md is generated from the same comments: the first
// paragraph of a field's comment is the key's row. Details follow it, and are in the schema alone
// (TestReference).
//
// # Known limits
//
// Keys of the contract that this version does not act on are accepted at their default and refused
// at any other value; they have the tag reserved (keys.go). YAML tags and merge keys are refused;
// anchors and aliases work.
//
// # Who imports it
//
// Packages cmd/weir and cmd/weir/admin.
//
// # What to read next
//
// config.go, origin.go, then decode.go.
package config
