// Package snapshot keeps the last known good configuration on disk. It writes what the table holds
// as it changes, and restores it at the start, before any client is served (RELAY-96).
//
// # What it is
//
// A [Keeper] has a directory. [Keeper.Load] restores what is there, and [Keeper.Run] writes.
// Package relay decides what is kept, and how it is used once restored (relay.TypeImage). What must
// not be cached is never written.
//
// What no client wants any more is removed from the disk, too, but for what goes because an origin
// is away, or because of a drain: then it is unknown whether it is still wanted, or still exists
// (TestUnwantedGoes, TestDrainKeeps). An empty table replaces nothing (TestEmptyReplacesNothing).
//
// # The file
//
// weir.snapshot is a header and records with checksums (format.go).
//
//   - A write counts as a whole or not at all. So the state that is read existed, wherever the file
//     is cut (TestCutAnywhere) and whenever the process is killed (TestKilled).
//   - Changes are appended (TestWritesWhatChanged). If that would make the file more than twice as
//     large as its content, plus 1 MiB, a new one is written beside it, synced, and renamed over it
//     (TestFileStaysSmall), as is the first file of a process. Hence a directory without a bound
//     needs room for three times its content (TestDiskFull).
//   - Damage costs the records that it hits (TestFlipAnywhere, FuzzParse). A set that lacks a
//     member is restored as not settled (TestDamage): clients of `*` then wait for the origin.
//   - A reader skips what a later minor version has. A file of another major version, or of another
//     deployment, is not restored (TestVersions, TestNotOurs). What cannot be restored is set aside
//     as weir.snapshot.damaged-TIME; three are kept.
//   - Reading a file takes no more memory than the process has left (scan.go, TestRoom,
//     TestHostileRecords). What there is no room for is not restored, and the file is set aside.
//
// # The bound
//
// With [Config.MaxBytes] the directory never has more than that, whatever weir writes there, and
// whenever it is killed: a volume of that size is enough (bound.go, TestBoundedVolume,
// TestDirectoryStaysBounded, TestKilledWithinBounds). Other files there count
// (TestForeignFilesCount). One exception: a file that was written under a larger bound stays until
// its replacement is whole, and until then there may be more (TestAnotherBound).
//
// What the content has no room for is left out by whole groups, those first that have had no
// clients for longest, and comes in again, without taking turns (groups.go,
// TestLeastRecentlyUsedIsLeftOut). What the file had at the start is left out for nothing that is
// new (TestRestartKeepsTheSame). Where none has room then, the file that is there stays.
//
// # Encryption
//
// With [Keys] the file is sealed in blocks (seal.go). Only the format's version and an id of the
// key are in plain text (TestSealed). A block that was changed, moved, or taken from another file
// does not open, and costs what is in it (TestSealedFlipAnywhere, FuzzUnseal). No key and nonce are
// used twice (TestNoNonceTwice). Another first key has the file written anew at once
// (TestKeysAreKept). A file in plain text is read, and replaced by the first write
// (TestPlainBecomesEncrypted). One whose key is not at hand cannot be restored.
//
// Without keys, secrets and resources with a private key in them are not written, and counted
// (leftout.go, TestNoSecrets, TestKeysAreLeftOut; package sensitive). What an older version of weir
// wrote is cleaned with the first write (TestOlderFilesAreCleaned). An export never has any of it.
//
// # History
//
// What the table held before is kept, too: the changes of package relay/history with their bodies,
// and which states were seen good, so an earlier state can be served again after a restart
// (history.go, TestHistoryIsKept). Revisions go on after those of the file, and keep their meaning.
// A write appends the changes up to its look at the content, so that the two fit
// (TestHistoryIsAppended). Without room it is left out first (TestHistoryIsLeftOutFirst), and in a
// damaged file as a whole (TestHistoryDamaged). It has no secrets, and without keys no private keys
// (TestHistoryHasNoKeys). A sibling is given 32 MiB of it at most (state.go).
//
// # Orders
//
// An operator's freeze is kept with the origin, and so is when an operator last began or ended one
// (TestFrozenIsKept). Orders to go back to an earlier state are kept alike, and what canary gates
// remember (TestOrdersAreKept). A freeze by the configuration file is not. An order is on disk,
// synced, before it is answered, with what the table then has ([Keeper.Sync], TestSync,
// TestSyncFails). An empty table loses nothing by that (TestSyncBeside). An origin is identified by
// its configured name; with other servers it is restored, too, without its versions.
//
// # Goroutines
//
// None is started. Load and then Run are called on one goroutine; [Keeper.Status], [Keeper.Sync]
// and [Keeper.Drain] may be called from any. A look at the table collects pointers, type by type,
// under its locks. Encoding and writing happen without any, at 32 MiB a second but for Sync.
//
// # What a bad disk can do to us
//
// Nothing to what is served. An error is logged once, counted, and shown on the admin port.
// Attempts become rarer, down to one a minute. The last good file stays in place, and the first
// attempt that succeeds writes everything (TestDiskFails, TestSmallFileSystem, TestReadOnly). A
// file that failed to sync is not written to again, and one that is removed is made again
// (TestRemovedUnderUs). Only one process writes to a directory; another one restores from it, and
// takes over when the first ends (dir.go, TestOneProcess).
//
// # Known limits
//
// A kill loses the changes of up to an interval, but for orders of operators. What was restored may
// have been removed by the origin in that time; the origin says so when it is back. Somebody who
// can write to the directory can put back the whole file, or cut off its last writes: they once
// were what weir wrote, and encryption does not tell. Copies that were set aside stay as they were
// written. A key in a message of an unknown type is found in PEM form alone.
//
// A file is read into memory as a whole at the start. Damage to both copies of the header, in the
// first 256 bytes, costs the file. Of network file systems only what fsync guarantees is expected.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/seed.
//
// # What to read next
//
// format.go, scan.go and content.go read the file; image.go, book.go and groups.go say what is in
// it; log.go, bound.go, keys.go and seal.go write it; keeper.go and save.go have the rounds;
// restore.go restores; history.go, historybook.go and historyrestore.go are for the history,
// state.go for siblings, and summary.go for the command line.
package snapshot
