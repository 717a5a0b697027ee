package relay

// lives is when the origin had which body of a name: nobody who holds one is to be told one that it
// had only before (RELAY-96).
type lives map[string]map[string][]life

// life is a body, or -1 for none, from a step on.
type life struct{ at, body int }

func (x lives) note(ty, name string, at, body int) {
	if x[ty] == nil {
		x[ty] = map[string][]life{}
	}
	x[ty][name] = append(x[ty][name], life{at, body})
}

// last is the index of the last time that the origin had the body, -1 if it never did.
func (x lives) last(ty, name string, body int) int {
	all := x[ty][name]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].body == body {
			return i
		}
	}
	return -1
}

// live notes what the origin has.
func (m *model) live() {
	for _, ty := range modelTypes {
		for _, name := range modelNames {
			body, exists := m.state[ty][name]
			if !exists {
				body = -1
			}
			if all := m.lives[ty][name]; len(all) == 0 && exists || len(all) > 0 && all[len(all)-1].body != body {
				m.lives.note(ty, name, m.at, body)
			}
		}
	}
}

// modelBack is what a client held, and knew to be gone, when it came back after a restart: places
// in lives.
type modelBack map[string]int

// loses notes of a name that the client lost that it knows so much. If it asks for the name again,
// it does not hold what it had before, and is as one that never did (RELAY-4).
func (b modelBack) loses(name string, gone int) {
	if knew, known := b[name]; known && gone > knew {
		b[name] = gone
	}
}
