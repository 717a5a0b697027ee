// Package file is an origin that is a file, or a directory whose files are used together: "files"
// in the config file.
//
// # What it is
//
// To the table an [Origin] is a delta control plane without a wire: it takes the lanes that the
// table wants ([relay.Origin.TakeLanes]), reads what they ask, and applies answers. A wildcard is
// answered with all resources of the type and the statement that there are no more, so the set need
// not settle. A name is answered with its resource or its absence. From then on changes are sent.
//
// An xdstp glob, and the namespace of a route configuration, is answered like a wildcard, with what
// it covers or with the statement that there is nothing (TestGlobs, TestEmptyGlobs,
// TestNamespaces). An alias is answered with the resource that lists it: the one with that very
// name if there is one, else the first by name. An alias that no resource lists is absent. If it is
// a virtual host's it is said not to resolve, so that the waiting request gets its answer (ALIAS-5,
// TestAliases).
//
// A file may give a resource constraints, in its wrapper. Each variant is a resource of its own, in
// the same file or another. A name, a wildcard and a glob that are asked with parameters are
// answered with the variants that match, or with the statement that none does, which is for that
// parameter map only (TestVariants, TestSelectorsWithParameters, TestAliasesOfVariants). All
// changes of one load, creations and removals of all variants, are one answer, so that no client
// sees half of a split or a merge (DYN-10, TestVariantSplitAndMerge). The table asks with
// parameters only if the origin is configured with `tp2: true`.
//
// Every resource has passed [xds.Accept], like one from the wire.
//
// The suffix decides the format (FILE-1): .pb is an encoded DiscoveryResponse, .pb_text and
// .textproto are its text form, .json is JSON, everything else is YAML. JSON and YAML hold, in one
// document or several, a DiscoveryResponse, an object with just resources, a list of resources, or
// one resource. A resource has an "@type", or is a wrapper (envoy.service.discovery.v3.Resource),
// with or without "@type", whose name, version, aliases, TTL and constraints are used. What Envoy's
// loader reads beyond canonical proto3 JSON is read as well where it can be meant in one way only,
// and warned of once for each file (TestFormsOfEnvoy; [xds.CanonicalJSON]). A wrapped collection
// gives its inline entries (FILE-7). The known messages are those of package descriptors, with what
// the operator adds ("types" in the config file). The resources of a .pb file are passed on as they
// are, known or not. Equal content has equal bytes in every format (TestFormatsAreEqual).
//
// In a directory every file is used, except dot files and what editors leave behind (a~, #a#).
// Subdirectories are not. Links are followed.
//
// # What a broken file can do
//
// It cannot take away what clients hold:
//
//   - A file that cannot be read, does not parse or fails a check keeps its previous content in
//     force, as a whole (FILE-5). Other files are updated, removals included, since the content of
//     the broken one is known (TestOtherFilesUpdateBesideABrokenOne).
//   - The content of a file that was never valid is unknown. Until all files were valid at one
//     time, no wildcard is answered and no absence stated, for any type: the file may have what a
//     client holds. Names found in other files are answered (TestBrokenFileAtStartStatesNothing).
//   - The same holds for a new file later: what is known stays in use and is updated, but nothing
//     is removed and no absence stated until the new file is valid or gone
//     (TestBrokenNewcomerHoldsRemovals).
//   - A resource in two files of a directory is an error of the file whose body is not used. The
//     body in force is kept as long as its file has it, whatever the files' names; at the start the
//     first file by name wins (TestDuplicateAcrossFiles). The rest of both files is used. Twice in
//     one file makes that file invalid.
//   - Two variants of one name that some parameters match alike are an error of the one that is
//     new, or comes later by file and place (TestOverlappingVariants). It is not used until they
//     exclude each other. Until then no variant of the name in force is removed either: perhaps the
//     unused one was to replace it (TestOverlapHoldsWhatWasInForce,
//     TestUnknownContentHoldsVariants). Variants that look at different parameters, or can match
//     nothing, are logged (TestVariantWarnings).
//   - Emptiness has to be stated, by an empty list. An empty file, a file of comments, and a
//     directory without files are errors, since truncated files and unmounted volumes look the same
//     (TestEmptinessHasToBeStated).
//   - A single file that is removed, or a directory that is gone, keeps its content. A file removed
//     from a directory takes its resources along (TestDirectoryAddAndRemove).
//   - Size, depth, the number of values and resources, and what YAML aliases expand to are bounded
//     before they cost anything (TestHostileFiles, TestManyResources, TestProblems, FuzzLoad).
//
// Each distinct error is logged once, each load is counted, and [Origin.Status] has the state of
// every file. [Check] returns all errors, and warnings, of files that are not served, and
// [Resources] what they would answer. Errors name file, line, column and field where the parsers
// do.
//
// # When files are read
//
// A single file is read when something is moved onto its path, not when it is written to, which may
// be half done (FILE-2). In a directory writes count as well, once there was none for
// Config.Debounce. The renaming of a link, by which a mounted ConfigMap changes, reads all files
// once (FILE-3, TestConfigMapSwapLoadsOnce).
//
// In addition all files are checked every Config.Poll. A file that was replaced is read. One that
// was written in place, single or not, is read once it has not changed for that long
// (TestFileWrittenInPlace). So an editor that writes in place works on a single file, too, but
// slowly.
//
// # Goroutines and locks
//
// Run's goroutine reads the files and publishes the merged content, which is immutable. It starts
// one goroutine for each lane and waits for them; each sends its lane what has changed, in ORD-1
// order. The watcher library has its own. One mutex guards the published content, and is held to
// swap pointers only. While a large file is read, lanes go on with the content before it, but new
// lanes wait.
//
// # Known limits
//
// All groups get the same, since nodes are not looked at. So an origin of files needs no group_by.
//
// A TTL counts from each load of its file; nothing renews it in between (FILE-8).
//
// A writer that pauses for longer than the debounce while it writes a file in a directory may have
// half of it read. It should write to a name with a leading dot, and rename. Files that are renamed
// one by one, more than the debounce apart, are one update each: a variant that moves from one to
// the other is in both meanwhile, which is an error that resolves itself, or in none.
//
// Text and binary files give no line for a resource.
//
// 1,000 variants of one name are read and told apart in 0.1 s, and a change of one is sent to 500
// parameter maps in as much (BenchmarkMergeVariants). A YAML tree takes some forty times the size
// of its file in memory while it is read (84,000 clusters in 8 MiB: 320 MiB, 2 s). So one document
// has at most two million values, as package yamltree counts them before it is parsed: up to twice
// as many as there are where collections are written with brackets. Binary files have no such bound
// but that of what they decode to.
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// origin.go, then lane.go, asked.go, answers.go, content.go and variants.go (which body is used)
// and source.go (what is read when). document.go begins the formats.
package file
