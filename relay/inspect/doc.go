// Package inspect describes the content of a table for people and metrics: [Query] lists resources,
// [Status] groups and their types, [Lanes] what the origin is asked, and [Suggest] which node
// fields made a difference to its answers, and which may have to. [Sharing] and [StandIns] are two
// figures.
//
// It never changes a table, and package relay never imports it (cmd/weir: TestShape). Package relay
// gives it copies, of one type of one group at a time, which are made under that type's lock. Texts
// are made here, without a lock. What must not be shown is left out: of secrets all but the name
// (RELAY-76), and bodies that must not be cached (RELAY-9).
//
// A variant that many parameter maps hold is one [ResourceInfo], which lists ten of the maps by
// default (TestPicturesOfVariants, TestPicturesListFewMaps). For a map that nobody uses, the result
// is what is held and matches it, including members of other maps' sets: a client with that map
// would be sent named resources at once, and the set when the origin has answered.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/csds.
package inspect
