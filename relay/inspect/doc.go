// Package inspect says for people and metrics what a table holds: [Query] for resources, [Status]
// for groups and their types, [Lanes] for what the origin is asked, [Suggest] for
// which node fields made a difference to its answers, [Sharing] and [StandIns] for two figures.
//
// It only looks. Package relay shows it copies, of one type of one group at a time, which are made
// under that type's lock; texts are made here, without any. What must not be seen is left out here
// too: of secrets all but the name (RELAY-76), and the bodies that must not be cached (RELAY-9).
//
// What one variant is for many parameter maps is one [ResourceInfo], which lists ten of them
// unless asked for all (TestPicturesOfVariants, TestPicturesListFewMaps). For a map that nobody has
// it shows what is held and matches, members of sets of other maps among it: a client would be
// given what is named at once, and the set when the origin has answered.
//
// It imports relay, and relay never imports it (cmd/weir: TestShape).
package inspect
