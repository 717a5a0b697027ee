// Package chaos injects faults into real processes and judges what every client was sent.
//
// # What it is
//
// A bed (bed_test.go) is an origin process, which is this test binary under another name and can be
// killed, stopped and started again (origin_test.go); the real weir; a bad network between each
// two, which delays, throttles, holds, loses, cuts and refuses (link_test.go); and clients of both
// dialects in every form, which come back with what they hold and write everything down
// (recorder_test.go, history_test.go). All the while the origin changes what it states, and moves
// routes from one cluster to another, the new cluster first (churn_test.go).
//
// What the origin ever stated lives in the test (truth_test.go), and every body carries a number,
// so a judge can play each client's history again (judge_test.go, whose own test is TestJudge):
//
//   - content never goes back, unless the origin did (EC-4), and is never made up;
//   - nothing is taken away, or said not to exist, that the origin did not remove (DEL-*, ABS-5);
//   - a whole answer has everything that stood all the time;
//   - a route never leads to a cluster that the client does not hold (ORD-2, ORD-3), where the
//     origin kept that order itself. A client of state of the world cannot say what it holds, so
//     the first list on a new stream may take a cluster from its routes; the line of a schedule
//     counts such excused breaks;
//   - when all is healed, every client holds what the origin states within 2 s (EC-2). Asserted is
//     10 s, for busy machines; what was measured is in the line;
//   - the origin is asked for each thing once (RELAY-5, RELAY-23);
//   - behind a canary gate (gate_cases_test.go) clients that are no canaries are only sent what
//     canaries had before, has baked, and is not bad. In the end all have the newest good state.
//
// # How to run it
//
// `make chaos` runs every schedule (schedules_test.go) and then draws more until CHAOS_FOR=10m has
// passed, with a line for each: what was drawn, and what was measured, or why it cannot be run
// here. CHAOS_SEED and CHAOS_ONLY, which each line has, draw the same faults again; how processes
// and packets interleave is the machine's. CHAOS_AT_ONCE=3 schedules run at a time. `make soak`
// runs a thousand clients for SOAK_FOR=30m. A plain `go test` runs a few schedules only.
package chaos
