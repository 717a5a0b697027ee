package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
)

// mostTickets is how many keys a file may have: a ticket of a client that comes back is tried with
// each of them.
const mostTickets = 16

// readTickets reads the keys that session tickets are sealed with: a line for each, 32 bytes in
// base64, as `openssl rand -base64 32` writes them. Empty lines and those that begin with # are
// skipped. No error says anything of what is in the file.
func readTickets(file string) (*loaded, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &fileError{"tickets", err}
	}
	l := &loaded{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 32 {
			return nil, &fileError{"tickets", fmt.Errorf("%s:%d is not 32 bytes in base64", file, n)}
		}
		l.tickets = append(l.tickets, [32]byte(key))
	}
	switch {
	case lines.Err() != nil:
		return nil, &fileError{"tickets", fmt.Errorf("%s has a line that is too long", file)}
	case len(l.tickets) == 0:
		return nil, &fileError{"tickets", fmt.Errorf("%s holds no key", file)}
	case len(l.tickets) > mostTickets:
		return nil, &fileError{"tickets", fmt.Errorf("%s holds %d keys, at most %d are of use", file, len(l.tickets), mostTickets)}
	}
	return l, nil
}
