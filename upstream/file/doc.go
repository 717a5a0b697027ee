// Package file is an origin that is a file, or a directory whose files count together: "files" in
// the config file.
//
// # What it is
//
// Towards the table an [Origin] is a delta control plane without a wire: it takes the lanes that
// the table wants ([relay.Origin.TakeLanes]), hears what they ask, and applies answers. A wildcard
// is answered with all resources of the type and a statement that there are no more, so that the
// set need not settle; a name is answered with its resource or with its absence. From then on
// differences are told.
//
// An xdstp glob, and the namespace of a route configuration, is answered as a wildcard is, with
// what it covers, or with the statement that there is none (TestGlobs, TestEmptyGlobs,
// TestNamespaces). An alias is answered with the resource that lists it: that of this very name if
// there is one, else the first by name. An alias of nothing is absent, and of a virtual host said
// not to resolve, for the sake of the request that waits for it (ALIAS-5, TestAliases).
//
// A file may state constraints for a resource, in its wrapper, and the resource for other
// parameters as a variant of its own beside it or in another file. A name, a wildcard and a glob
// that are asked with parameters are answered with what matches them, or with the statement that
// nothing does, which is said to that map alone (TestVariants, TestSelectorsWithParameters,
// TestAliasesOfVariants). All that a load of the files changed, creations and removals of all
// variants, is one answer, so that nobody sees half of a split or a merge (DYN-10,
// TestVariantSplitAndMerge). The table brings parameters to an origin that is configured with `tp2:
// true` alone.
//
// Every resource has passed [xds.Accept], as one from the wire has.
//
// The suffix decides how a file is read (FILE-1): .pb is an encoded DiscoveryResponse, .pb_text and
// .textproto are its text form, .json is JSON, everything else is YAML. JSON and YAML hold, in one
// document or several, a DiscoveryResponse, an object with just resources, a list of resources, or
// one resource. A resource has its "@type", or is a wrapper (envoy.service.discovery.v3.Resource),
// with or without "@type", whose name, version, aliases, TTL and constraints count; a wrapped
// collection gives its inline entries (FILE-7). The fields are those of package descriptors, with
// what the operator describes (types in the config file); the resources of a .pb file are passed on
// as they are, known or not. One content gives equal bytes in every format (TestFormatsAreEqual).
//
// In a directory every file counts, except dot files and what editors leave behind (a~, #a#).
// Directories below it do not. Links are followed.
//
// # What a broken file can do
//
// Nothing to those who hold something. In particular:
//
//   - A file that cannot be read, does not parse or fails a check keeps its previous content in
//     force, whole (FILE-5). Other files go on, removals included, since what the broken one holds
//     is known (TestOtherFilesUpdateBesideABrokenOne).
//   - The content of a file that was never in order is not known. Until every file was in order at
//     one time, no wildcard is answered and no absence stated, for any type: the file may hold what
//     somebody has. Names found in other files are answered (TestBrokenFileAtStartStatesNothing).
//   - The same for a file that is new later: what is known goes on being served and updated, but
//     nothing is removed and no absence stated until the new file is in order or gone
//     (TestBrokenNewcomerHoldsRemovals).
//   - A resource stated by two files of a directory is an error of the one that does not count. The
//     body in force counts as long as its file states it, whatever the others are called; at the
//     start the first by file name (TestDuplicateAcrossFiles). The rest of both files counts. Twice
//     in one file breaks that file.
//   - Variants of one name that some parameters match alike are an error of the one that comes to
//     what is in force, or comes later, by file and place (TestOverlappingVariants). It does not
//     count until they exclude each other, and nor does until then the disappearance of what was in
//     force of the name: it was perhaps to be replaced by what does not count
//     (TestOverlapHoldsWhatWasInForce, TestUnknownContentHoldsVariants). Variants that look at
//     different parameters, or can match nobody, are logged (TestVariantWarnings).
//   - Emptiness has to be stated, by an empty list: an emptied file, a file of comments, and a
//     directory without files are errors, since truncated files and unmounted volumes look so
//     (TestEmptinessHasToBeStated).
//   - A single file that is removed, or a directory that is gone, keeps its content. A file removed
//     from a directory takes its resources along (TestDirectoryAddAndRemove).
//   - Size, depth and what YAML aliases expand to are bounded (TestProblems, FuzzLoad).
//
// Each distinct error is logged once, each load counted, and [Origin.Status] shows how every file
// stands. [Check] tells all of it, and warnings, of files that nobody serves. Errors name file,
// line, column and field where the parsers tell.
//
// # When files are read
//
// A single file is read when something is moved onto its path, not when it is written to, which may
// be half done (FILE-2). In a directory writes count as well, once it has been quiet for
// Config.Debounce. The renaming of a link, by which a mounted ConfigMap changes, reads all files
// once (FILE-3, TestConfigMapSwapLoadsOnce). Besides, every Config.Poll all files are looked at:
// one that was replaced is read; one that was written in place, whether single or not, is read once
// it has rested for that long (TestFileWrittenInPlace). So an editor that writes in place works, if
// slowly, on a single file too.
//
// # Goroutines and locks
//
// Run's own reads the files and publishes the merged content, which never changes. It starts one
// for each lane and waits for them; each tells its lane what is new, in the order of ORD-1. The
// watcher library has its own. One mutex guards the published content and is held to swap pointers
// only. While a large file is read, lanes go on with the content before it, but new lanes wait.
//
// # Known limits
//
// All groups get the same: nodes are not looked at, so an origin of files needs no group_by. A TTL
// counts from each load of its file; nothing renews it in between (FILE-8). A writer that pauses
// for longer than the debounce in the middle of writing a file in a directory may be caught with
// half of it: write beside it, under a name with a dot, and rename. Text and binary files give no
// line for a resource. Files that are renamed one by one more than the debounce apart are one
// update each: a variant that moves from one to the other meanwhile is in both, which is an error
// that resolves itself, or in none. 1,000 variants of one name are read and told apart in 0.1 s,
// and a change of one told to 500 maps of parameters in as much (BenchmarkMergeVariants). A YAML
// tree takes some forty times the size of its file in memory while it is read (84,000 clusters in 8
// MiB: 320 MiB, 2 s).
//
// # What to read next
//
// origin.go, then lane.go, asked.go, saying.go, content.go and variants.go (what wins) and
// source.go (what is read when). document.go begins the formats.
package file
