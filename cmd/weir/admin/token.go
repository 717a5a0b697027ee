package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
)

// The token, and the limit on wrong ones.

// credentials checks the token, or the session that was begun with one.
func (a *Admin) credentials(r *http.Request, try func(r *http.Request, given, want string) *refusal) (caller, *refusal) {
	want, err := a.token()
	if err != nil {
		return "", unreadable
	}
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return byToken, try(r, given, want)
	}
	if a.sessions.holds(r, want, time.Now()) {
		return bySession, nil
	}
	if r.Header.Get("Authorization") != "" {
		return "", try(r, "", want)
	}
	return "", noToken
}

// try compares a token, unless the peer has sent too many wrong ones. It never waits: such a peer
// is told to come back later.
func (a *Admin) try(r *http.Request, given, want string) *refusal {
	from, now := peerOf(r), time.Now()
	place, ok := a.tries.take(from, now)
	if !ok {
		return tooMany
	}
	if equal(given, want) {
		a.tries.giveBack(place)
		return nil
	}
	if n := a.wrongTokens.due(now); n > 0 {
		a.cfg.Log.Warn("wrong tokens came to the admin port", zap.Int("since_the_last_line", n), zap.String("last_from", from))
	}
	return wrongToken
}

// equal compares tokens. Sums have equal length, so the comparison does not reveal the token's.
func equal(given, want string) bool {
	sum, wantSum := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(sum[:], wantSum[:]) == 1
}

// token returns the token in force.
func (a *Admin) token() (string, error) {
	want, err := ReadToken(a.cfg.TokenFile)
	if err != nil && a.unreadable.due(time.Now()) > 0 {
		a.cfg.Log.Error("the admin token cannot be read; requests are refused", zap.Error(err))
	}
	return want, err
}

// ReadToken reads a token. An empty file is an error: an empty token would open the port to
// everybody.
func ReadToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s holds no token", path)
	}
	return token, nil
}
