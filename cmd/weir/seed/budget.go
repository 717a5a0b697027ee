package seed

import (
	"fmt"
	"io"
	"sync/atomic"
)

// maxHeads bounds what the heads of all siblings take together, in bytes of memory: all of them are
// asked at once, and each head may have what headMemory says.
const maxHeads = 128 << 20

// budget is what may still be taken.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := &budget{}
	b.left.Store(bytes)
	return b
}

// take takes so many bytes, before they are needed.
func (b *budget) take(bytes int) error {
	if b.left.Add(-int64(bytes)) < 0 {
		return fmt.Errorf("the heads of all siblings need more than %d bytes", maxHeads)
	}
	return nil
}

// reader takes what is read from it.
type reader struct {
	from   io.Reader
	budget *budget
}

// Read implements io.Reader.
func (r reader) Read(b []byte) (n int, err error) {
	n, err = r.from.Read(b)
	if taken := r.budget.take(n); taken != nil {
		return 0, taken
	}
	return n, err
}
