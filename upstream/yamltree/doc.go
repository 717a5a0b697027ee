// Package yamltree bounds what YAML documents cost, before the cost is paid.
//
// A value of a list has two bytes in a file, and two hundred as a node of the library's tree. An
// alias has three, and stands for as many values as its anchor has, which may have aliases
// themselves. So there are two bounds: [Text] is for a file that is not parsed yet, and [Node] for
// a tree that will be walked with its aliases written out.
//
// It is pure: no lock, no clock, no I/O. It does not recurse into aliases, and the library bounds
// how deeply nodes are nested.
//
// # Who imports it
//
// Packages upstream/file and cmd/weir/config.
package yamltree
