// Package snapshot keeps the last known good configuration on disk. It writes what the table holds
// as it changes, and restores it at the start, before any client is served (RELAY-96).
//
// # What it is
//
// A [Keeper] has a directory. [Keeper.Load] restores what is there, and [Keeper.Run] writes.
// Package relay decides what is kept and how restored content is used (relay.TypeImage). What must
// not be cached is never written.
//
// # The file
//
// weir.snapshot is a header and records. The header has a magic, the format's version, the
// deployment's name, and eight random bytes that begin every record, so that no body can be
// mistaken for one (TestBodiesAreNotRecords). A record has a class, a key, metadata, a body, and
// two CRC32C: of its head and of the rest. The classes are: an origin; one type of one group; one
// member of a set, or one name; a removal; and the end of a write.
//
//   - A write counts as a whole or not at all. So the state that is read existed, wherever the file
//     is cut (TestCutAnywhere) and whenever the process is killed (TestKilled).
//   - Changes are appended (TestWritesWhatChanged). If that would make the file more than twice as
//     large as its content, plus 1 MiB, a new one is written beside it, synced, and renamed over it
//     (TestFileStaysSmall). So is the first file of a process. Hence a directory without a bound
//     needs room for three times its content. With less, changes are still appended for a while
//     (TestDiskFull).
//   - Damage costs the records that it hits (TestFlipAnywhere, FuzzParse). A set has the number of
//     its members and a sum over them. One that lacks a member is restored as not settled
//     (TestDamage): clients of `*` then wait for the origin.
//   - A reader accepts every minor version of its major version, and skips what is new in it. A
//     file of another major version, or of another deployment, is not restored (TestVersions,
//     TestNotOurs). A file that cannot be restored is given a second name,
//     weir.snapshot.damaged-TIME, before it is replaced; three of these are kept
//     (TestFewAreSetAside).
//   - Reading a file takes no more memory than the process has left (Config.Room, TestRoom), and
//     what a record repeats is bounded (TestHostileRecords). What there is no room for is not
//     restored, and the file is set aside. Of very many damages the first are described
//     (TestManyDamages).
//   - An export is such a file without superseded records.
//
// # The bound
//
// With [Config.MaxBytes] the directory never has more than that, whatever weir writes there, and
// whenever it is killed (TestDirectoryStaysBounded, TestKilledWithinBounds). A volume of that size
// is enough (TestBoundedVolume). The content has 5/16 of it: the file may grow to twice that, and
// there is always room for a new one (bound.go). Copies that were set aside go, the oldest first,
// as the room is needed (TestCopiesMakeRoom). Other files there count, with a reserve for the
// configuration that weir keeps beside the snapshot (TestForeignFilesCount).
//
// What the content has no room for is left out by whole groups, those first that have had no
// clients for longest, and comes in again (groups.go, TestLeastRecentlyUsedIsLeftOut). A group that
// is too large alone costs itself (TestTooLargeGroup). Groups at the edge do not take turns: one
// that was left out stays so for ten minutes (TestGroupsDoNotTakeTurns), and what the file had at
// the start is left out for nothing that is new (TestRestartKeepsTheSame). Where no group has room
// at the start, the file that is there stays (TestAllTooLarge).
//
// One exception: a file that was written under a larger bound stays until its replacement is whole,
// and until then there may be more (TestAnotherBound).
//
// # Encryption
//
// With [Keys] the file is encrypted: the file above, sealed in blocks of 4 KiB (seal.go). Nothing
// of it is in plain text but the format's version and an id of the key (TestSealed). Writes are
// appended, cut off and damaged as above: a block that was changed, moved, or taken from another
// file does not open, and costs what is in it (TestSealedFlipAnywhere, TestSealedReordered,
// TestSealedCutAnywhere, FuzzUnseal). No key and nonce are used twice, also where a write failed
// and is repeated in its place (TestNoNonceTwice). The first key of the key file encrypts, both
// decrypt, and another first key has the file written anew at once (TestKeysAreKept). A file in
// plain text is read, and replaced by the first write (TestPlainBecomesEncrypted). One whose key is
// not at hand is treated as one that cannot be restored.
//
// Without keys, secrets and resources with a private key in them are not written, and counted
// (leftout.go, TestNoSecrets, TestKeysAreLeftOut). A set that lacks such a member is restored as
// not settled; a name that lacks it is asked for. Each body is looked at once, when it is new
// (package sensitive). What an older version of weir wrote is cleaned with the first write
// (TestOlderFilesAreCleaned). An export is in plain text, and never has any of it
// (TestExportHasNoKeys).
//
// # History
//
// What the table held before is kept, too (history.go): the changes of package relay/history with
// their bodies, and which states were seen good. So an earlier state can be served again after a
// restart (TestHistoryIsKept). Revisions go on after those of the file, and keep their meaning. A
// write appends the changes since the last one (TestHistoryIsAppended), up to the moment of the
// look at the content, so that the two fit. Where they do not fit, what was before is not known.
//
// The history costs the rest nothing. Where there is no room for all it is left out first
// (TestHistoryIsLeftOutFirst). In a damaged file it is left out as a whole, with a log line
// (TestHistoryDamaged, TestHistoryLacksAPart). Secrets are in no history, and bodies with a private
// key in them are in none of a file in plain text (TestHistoryHasNoKeys). A sibling is given 32 MiB
// of it at most. BenchmarkHistory measures it.
//
// # Orders
//
// An operator's freeze is kept with the origin, and so is when an operator last began or ended one
// (TestFrozenIsKept). Orders to go back to an earlier state are kept alike, and what canary gates
// remember (TestOrdersAreKept, TestManyGates). A freeze by the configuration file is not. An order
// is on disk, synced, before it is answered ([Keeper.Sync], TestSync), with what the table then
// has: that is what it keeps clients at. An empty table loses nothing of the file by that
// (TestSyncBeside). An error of the disk is the answer's (TestSyncFails). An origin is identified
// by its configured name. If its servers have changed it is restored all the same, but its versions
// are not presented to the new servers.
//
// # Goroutines
//
// None is started. Load and then Run are called on one goroutine; [Keeper.Status], [Keeper.Sync]
// and [Keeper.Drain] may be called from any. Sync has Run write at once and at full speed. A look
// at the table collects pointers, type by type, under its locks. Encoding and writing happen
// without any lock, on Run's goroutine, at 32 MiB a second at most (TestRate).
//
// # What is removed
//
// What no client wants any more is removed from the disk, too. The exception is what would go
// because an origin is away, or because of a drain: then it is unknown whether it is still wanted,
// or still exists (TestUnwantedGoes, TestDrainKeeps). An empty table replaces nothing
// (TestEmptyReplacesNothing).
//
// # What a bad disk can do to us
//
// Nothing to what is served. An error is logged once, counted, and shown on the admin port.
// Attempts become rarer, down to one a minute. The last good file stays in place, and the first
// attempt that succeeds writes everything (TestDiskFails, TestSmallFileSystem, TestReadOnly,
// TestRun). A file that failed to sync is not written to again. A file or directory that is removed
// is made again (TestRemovedUnderUs). Only one process writes to a directory. Another one restores
// from it, and takes over when the first ends (TestOneProcess). The directory is for its owner only
// (TestForItsOwnerOnly).
//
// # Known limits
//
// A kill loses the changes of up to an interval, but for orders of operators. What was restored may
// have been removed by the origin in that time; the origin says so when it is back.
//
// Somebody who can write to the directory can put back the whole file, or cut off its last writes:
// they once were what weir wrote, and encryption does not tell. Copies that were set aside stay as
// they were written. A key in a message of an unknown type is found in PEM form alone.
//
// A file is read into memory as a whole at the start. Damage to both copies of the header, in the
// first 256 bytes, costs the file. Of network file systems nothing is expected beyond what fsync
// guarantees.
//
// # Who imports it
//
// Packages cmd/weir, cmd/weir/admin and cmd/weir/seed.
//
// # What to read next
//
// format.go, scan.go and content.go read the file; history.go, historybook.go and
// historyrestore.go are for the history; log.go writes it; bound.go has how much may be written;
// keys.go, seal.go and unseal.go encrypt it; image.go turns an image into records; book.go is what
// the file lacks; groups.go is what it leaves out; keeper.go has the rounds, and save.go what
// each writes; load.go reads the file at the start; restore.go restores; state.go and fill.go are
// for siblings; summary.go and transfer.go are for the command line.
package snapshot
