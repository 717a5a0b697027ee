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
// # Variables
//
// ${NAME} and ${NAME:-fallback} are replaced inside scalar values, after the YAML was parsed: a
// variable can change a value, never the structure (TestEnvCannotChangeStructure). $$ is a dollar
// sign.
//
// # Paths
//
// A field with the tag path names a file or directory. A relative path starts at the directory of
// the configuration file. After Parse paths are absolute, with variables replaced
// (TestRelativePaths, TestPathsAreMarked).
//
// # What a reload does
//
// Changed compares two configurations. reload.go says, key by key, what a reload does with a
// difference; a key that is not listed needs a restart (TestReloadKnowsTheKeys). CheckReload
// reports those, line by line.
//
// # What editors know
//
// Schema has each key with its comment, and is made of the same structs. Keys with few values have
// them in choices, for the check and the schema (TestSchemaKnowsEveryKey).
//
// # Known limits
//
// Keys of the contract that this version does not act on are accepted at their default and refused
// at any other value; unsupported.go lists them. YAML tags and merge keys are refused; anchors and
// aliases work.
//
// # Who imports it
//
// Packages cmd/weir and cmd/weir/admin.
//
// # What to read next
//
// config.go, origin.go, then decode.go.
package config
