//go:build !race

package downstream

const raced = false
