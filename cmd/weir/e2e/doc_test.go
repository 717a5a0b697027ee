// Package e2e shows weir at work between programs nobody here wrote: go-control-plane as the origin
// and grpc-go's xds resolver as the client. It has tests only, in a module of its own, so that what
// they need stays out of the product.
//
// # What runs
//
// TestMain builds cmd/weir once, with the race detector where there is a C compiler, and every test
// runs that binary as a process of its own with a configuration file of its own (package weirtest).
// Origins are a go-control-plane server over its snapshot or its linear caches (plane_test.go), or
// relaytest's scripted origin where a test needs one that misbehaves or counts what it is asked.
// Clients are grpc-go (mesh_test.go), or relaytest's recording client where a test asserts what was
// sent and what was not.
//
// # Reading a failure
//
// The process's output and configuration follow the failed test. A data race in the process, or an
// exit status other than 0 at the end, fails the test it served. WEIR_LOG=debug turns its log up;
// WEIR_SEED repeats TestFourCrossings with the seed that every run prints. WEIR_BINARY names a weir
// built elsewhere, to be tested instead.
//
// # What to read next
//
// rpc_test.go is the shortest complete use; then crossing_test.go, whose model says what each
// dialect can express, and roads_test.go, with every kind of source and every way out.
package e2e
