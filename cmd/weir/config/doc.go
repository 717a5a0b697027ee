// Package config reads weir's configuration file.
//
// # What it is
//
// One YAML document becomes one [Config]: plain structs whose field comments
// are the manual. [Load] reads a file, [Parse] reads bytes. A value that is not
// written keeps the default of [Default]; only origins have none.
//
// # What a mistake does
//
// Nothing is guessed and nothing is ignored. Unknown and repeated keys, values
// of the wrong kind, variables that are not set, and settings that contradict
// each other are each a [Problem] with file, line, column and field. All of
// them are reported at once, in the order of their lines (TestFiveMistakes).
//
// # Variables
//
// ${NAME} and ${NAME:-fallback} are replaced inside scalar values, after the
// YAML was parsed: a variable can change a value, never the structure
// (TestEnvCannotChangeStructure). $$ is a dollar sign.
//
// # Paths
//
// A field with the tag path names a file or directory. One that does not begin
// with a slash starts at the directory of the configuration file, variables
// replaced, and is absolute after Parse (TestRelativePaths, TestPathsAreMarked).
//
// # What a reload does
//
// Changed compares two configurations, and reload.go decides key by key what
// becomes of a difference; a key that is not decided needs a restart
// (TestReloadKnowsTheKeys). CheckReload refuses what does, line by line.
//
// # What editors know
//
// Schema has each key with its comment, made of the same structs; values that
// are of a few stand in choices, for the check and the schema
// (TestSchemaKnowsEveryKey).
//
// # Known limits
//
// Keys of the contract that this version does not act on are accepted at their
// default and refused at any other value; unsupported.go lists them. YAML tags
// and merge keys are refused; anchors and aliases work.
//
// # What to read next
//
// config.go, origin.go, then decode.go.
package config
