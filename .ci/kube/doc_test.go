// Package kube proves the chart on a live API server. It has tests only, in a module of its own,
// since it needs more than Go: make kube builds the programs (programs/go.mod pins them), installs
// etcd and runs it.
//
// # What runs
//
// One cluster for all tests: standin_test.go, which says what of it is real. helm installs the
// chart as anybody does. Each test has namespaces of its own, which are labelled for Pod Security
// restricted; helm may print no warning.
//
// A bed (helm_test.go) is a namespace with secrets, and an origin on the machine that pods know as
// control-plane (origin_test.go); its certificate can be made wrong. Clients are outside of pods
// and connect to the service: those of client_test.go, which follow the state of their stream, and
// real Envoys (envoy_test.go), each on a machine of its own, with a request all the time.
//
// # Tests
//
// values_test.go installs, upgrades, rolls back and tests the value sets of deploy/helm/examples
// and the sidecar. rollout_test.go is why this stage is there: the origin's certificate becomes
// wrong, and nobody loses anything when weir is updated, every node is drained and pods are killed.
// freeze_test.go freezes all replicas.
//
// # Times
//
// What is promised in seconds is asserted at five times as much, and the true value is logged.
//
// # Reading a failure
//
// What every container wrote follows a failed test, with a diary of the stand-in for each pod. The
// variables KUBE, WEIR and WEIR_REAL_CACHE name the programs built elsewhere.
package kube
