// Package snapshot keeps the last known good on disk: what the table holds is written down as it
// changes, and a weir that starts puts it back before it serves anybody (RELAY-96).
//
// # What it is
//
// A [Keeper] has a directory. [Keeper.Load] restores what is there, [Keeper.Run] writes. What is
// kept, and what restored content is good for, is up to package relay (relay.TypeImage); secrets
// and what must not be cached are never in it (TestNoSecrets).
//
// # The file
//
// weir.snapshot is a header and records. The header has a magic, the format's version, the
// deployment's name, and eight random bytes that begin every record, so that no body can pass for
// one (TestBodiesAreNotRecords). A record has a class, a key, metadata, a body, and a CRC32C of its
// head and of the rest. Classes: an origin itself; one type of one group; one member of a set, or
// one name; a removal; and the end of a write.
//
//   - A write counts whole or not at all: what is read is a state that once was, wherever the file
//     is cut (TestCutAnywhere) and whenever the process is killed (TestKilled).
//   - What changed is appended (TestWritesWhatChanged). Where that made the file twice as large as
//     what is in it, and 1 MiB, a new one is written beside it, synced, and renamed over it
//     (TestFileStaysSmall). So is the first file of a process. Hence a directory needs room for
//     three times what is kept; with less, changes are still appended for a while (TestDiskFull).
//   - Damage costs the records that it hits (TestFlipAnywhere, FuzzParse). A set says how many
//     members it has and a sum of what they are, so one that lacks any is restored as not settled
//     (TestDamage): clients of `*` then wait for the origin.
//   - A reader takes every minor version of its own major, and skips what is new in it; a file of
//     another major, or of another deployment, is not restored (TestVersions, TestNotOurs). What
//     cannot be restored for the file's sake gets a second name, weir.snapshot.damaged-TIME, before
//     it is replaced; three such files are kept (TestFewAreSetAside).
//   - An export is such a file with nothing superfluous in it.
//
// An operator's freeze is kept with the origin (TestFrozenIsKept). An origin is known by its
// configured name. What is kept of one that is given other servers is restored all the same; only
// its versions are not presented to them.
//
// # Goroutines
//
// The caller's: Load and then Run on one of them; [Keeper.Status] and [Keeper.Drain] may be called
// from any. A look at the table collects pointers, type by type, and holds its locks for nothing
// else. Encoding and writing are Run's, at 32 MiB a second at most (TestRate). No lock is held
// while anything is written.
//
// # What is let go
//
// What nobody wants any more goes from disk, too, but for what an origin that is away, or a drain,
// would take along (TestUnwantedGoes, TestDrainKeeps): then nobody can say that it is not wanted,
// or is no more. An empty table replaces nothing (TestEmptyReplacesNothing).
//
// # What a bad disk can do to us
//
// Nothing to what is served. An error is told once, counted, and shown on the admin port; attempts
// become rarer, down to one a minute; what was good stays in place, and the first attempt that
// works says everything (TestDiskFails, TestSmallFileSystem, TestReadOnly, TestRun). A file that
// failed to sync is not written to again. A file or directory that is removed is made again
// (TestRemovedUnderUs). Only one process writes to a directory; another restores from it, and takes
// over when the first ends (TestOneProcess). The directory is for its owner alone
// (TestForItsOwnerOnly).
//
// # Known limits
//
// The last changes, up to an interval's, are lost when the process is killed, a freeze among them.
// Keys and passwords that an origin puts into listeners and clusters, not into secrets, are on disk
// as they are in memory; the command line blanks them. A file is read into memory as a whole at the
// start. A damaged beginning of both copies of the header, 256 bytes, costs the file. Deferred
// writes of the network file systems are not trusted further than fsync goes. What is restored may
// have been removed by the origin in the interval before the end; the origin says so when it is
// back.
//
// # What to read next
//
// format.go, scan.go and content.go are the file; log.go writes it; image.go is how an image
// becomes records; book.go what the file lacks; keeper.go the rounds; restore.go the way back;
// summary.go and transfer.go are for the command line.
package snapshot
