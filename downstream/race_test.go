//go:build race

package downstream

// raced: the race detector is there, which keeps the compiler from inlining some of what allocates
// nothing otherwise.
const raced = true
