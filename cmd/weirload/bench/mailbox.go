package main

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// everything is the index of a body with every resource.
const everything = -1

// mailbox has what one client of the yardstick has to be sent.
type mailbox struct {
	// Set once.
	dialect int
	wake    chan struct{} // one slot

	mu      sync.Mutex // guards pending
	pending []item
}

type item struct {
	index int
	bytes []byte // shared
}

// put adds the newest body of a resource, or of everything.
func (m *mailbox) put(index int, bytes []byte) {
	m.mu.Lock()
	if index == everything {
		m.pending = m.pending[:0]
	}
	for i := range m.pending {
		if m.pending[i].index == index {
			m.pending[i].bytes = bytes
			m.mu.Unlock()
			return
		}
	}
	m.pending = append(m.pending, item{index, bytes})
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take empties the mailbox into one response. A body of everything is sent alone, since it may
// include what was put after it.
func (m *mailbox) take(to mem.BufferSlice) mem.BufferSlice {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.pending)
	if n > 1 && m.pending[0].index == everything {
		n = 1
		defer m.signal()
	}
	for _, it := range m.pending[:n] {
		to = append(to, mem.SliceBuffer(it.bytes))
	}
	rest := copy(m.pending, m.pending[n:])
	clear(m.pending[rest:])
	if m.pending = m.pending[:rest]; cap(m.pending) > 4 && rest == 0 {
		m.pending = nil // an idle client costs no buffer
	}
	return to
}
