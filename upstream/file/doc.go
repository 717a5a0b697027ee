// Package file is an origin that is a file, or a directory whose files are used together: "files"
// in the config file.
//
// # What it is
//
// To the table an [Origin] is a delta control plane without a wire: it takes the lanes that the
// table wants ([relay.Origin.TakeLanes]), reads what they ask, and applies answers. A wildcard is
// answered with all resources of the type and the statement that there are no more, so the set need
// not settle. A name is answered with its resource or its absence. From then on changes are sent.
// Every resource has passed [xds.Accept], like one from the wire.
//
// An xdstp glob, and the namespace of a route configuration, is answered like a wildcard
// (TestGlobs, TestNamespaces). An alias is answered with the resource that lists it (content.go).
// One that none lists is absent, or said not to resolve if a request waits (ALIAS-5).
//
// A file may give a resource constraints, in its wrapper. Each variant is a resource of its own, in
// the same file or another. What is asked with parameters is answered with the variants that match,
// or with the statement that none does, for that parameter map only (TestVariants,
// TestSelectorsWithParameters, TestAliasesOfVariants). All changes of one load are one answer, so
// that no client sees half of a split or a merge (DYN-10, TestVariantSplitAndMerge). The table asks
// with parameters only if the origin is configured with `tp2: true`.
//
// The suffix decides the format (FILE-1): .pb is an encoded DiscoveryResponse, .pb_text and
// .textproto are its text form, .json is JSON, everything else is YAML: documents with a
// DiscoveryResponse, an object with just resources, a list of them, or one (document.go). A
// resource has an "@type", or is a wrapper whose name, version, aliases, TTL and constraints are
// used. What Envoy's loader reads beyond canonical JSON is read as well where it can be meant in
// one way only, with a warning (TestFormsOfEnvoy; [xds.CanonicalJSON]). A wrapped collection gives
// its inline entries (FILE-7). The known messages are those of package descriptors, and the
// operator's "types". Resources of a .pb file are passed on as they are. Equal content has equal
// bytes in every format. In a directory every file is used, also through links, but for dot files,
// what editors leave behind, and subdirectories.
//
// # How a broken file takes nothing from clients
//
//   - A file that cannot be read, does not parse or fails a check keeps its previous content in
//     force, as a whole (FILE-5). Other files are updated, removals included.
//   - The content of a file that was never valid is unknown. Until all files were valid at one
//     time, no wildcard is answered and no absence stated: the file may have what a client holds.
//     Names found in other files are answered (TestBrokenFileAtStartStatesNothing). While a new
//     file is broken later, nothing is removed and no absence stated.
//   - A resource in two files of a directory is an error of the file whose body is not used. The
//     body in force is kept as long as its file has it; at the start the first file wins
//     (TestDuplicateAcrossFiles). Twice in one file makes that file invalid.
//   - Of two variants of one name that some parameters match alike the new one is an error, and not
//     used. No variant of the name is removed meanwhile (variants.go, TestOverlappingVariants).
//   - Emptiness has to be stated, by an empty list. An empty file, one of comments, and a directory
//     without files are errors, as truncated files and unmounted volumes are alike.
//   - A single file that is removed, or a directory that is gone, keeps its content. A file removed
//     from a directory takes its resources along (TestDirectoryAddAndRemove).
//   - Size, depth, the number of values and resources, and what YAML aliases expand to are bounded
//     before they cost anything (parse.go, TestHostileFiles, TestManyResources, FuzzLoad).
//
// Each distinct error is logged once, with file, line, column and field where the parsers have
// them, and [Origin.Status] has the state of every file. [Check] and [Resources] serve nothing.
//
// # When files are read
//
// A single file is read when something is moved onto its path, not when it is written to, which may
// be half done (FILE-2). In a directory writes count as well, once there was none for
// Config.Debounce. The renaming of a link, by which a mounted ConfigMap changes, reads all files
// once (FILE-3, TestConfigMapSwapLoadsOnce). Every Config.Poll all files are checked: one that was
// written in place is read once it has not changed for so long (TestFileWrittenInPlace).
//
// # Goroutines and locks
//
// Run's goroutine reads the files and publishes the merged content, which is immutable. It starts
// one goroutine for each lane and waits for them; each sends its lane what has changed, in ORD-1
// order. The watcher library has its own. One mutex guards the published content, and is held to
// swap pointers only. While a large file is read new lanes wait; others go on.
//
// # Known limits
//
// All groups get the same, so an origin of files needs no group_by. A TTL counts from each load of
// its file; nothing renews it in between (FILE-8). Text and binary files have no lines.
//
// A writer that pauses for longer than the debounce while it writes a file in a directory may have
// half of it read. It should write to a name with a leading dot, and rename. Files that are renamed
// more than the debounce apart are one update each: a variant that moves between them is in both
// meanwhile, an error that resolves itself, or in none.
//
// A YAML tree takes some forty times the size of its file in memory while it is read (320 MiB and 2
// s for 84,000 clusters). So one document has at most two million values (package yamltree): up to
// twice as many as there are where collections are written with brackets. Binary files have no such
// bound but that of what they decode to.
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// origin.go, then lane.go, asked.go, content.go and variants.go (which body is used) and source.go
// (what is read when). document.go begins the formats.
package file
