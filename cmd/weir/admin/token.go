package admin

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"strings"
	"sync"
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
		a.cfg.Log.Warn("the admin port received wrong tokens", zap.Int("since_the_last_line", n), zap.String("last_from", from))
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
		a.cfg.Log.Error("cannot read the admin token; requests are refused", zap.Error(err))
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

const (
	// mostTries is how many wrong tokens a peer may send at once; after that one is read every
	// tryEvery.
	mostTries = 10
	tryEvery  = time.Second
	// mostPeers bounds the peers that are told apart; all others count as one.
	mostPeers = 1000
	// sayEvery is the least time between two equal log lines.
	sayEvery = time.Minute
)

// tries limits guesses of the token. It never waits: without a try left, a token is refused unread,
// right or wrong, since the answer would reveal which. The zero value is ready for use.
type tries struct {
	mu    sync.Mutex // guards peers; held for map work only
	peers map[string]triesLeft
}

// triesLeft is how many tries a peer had left at a time.
type triesLeft struct {
	n  float64
	at time.Time
}

func (l triesLeft) now(now time.Time) float64 {
	return min(mostTries, l.n+now.Sub(l.at).Seconds()/tryEvery.Seconds())
}

// take takes a try of a peer, if one is left, and returns the key that it was taken from.
func (t *tries) take(peer string, now time.Time) (place string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	peer = t.place(peer, now)
	left, known := t.peers[peer]
	if !known {
		left = triesLeft{mostTries, now}
	}
	n := left.now(now)
	if n < 1 {
		return peer, false
	}
	t.peers[peer] = triesLeft{n - 1, now}
	return peer, true
}

// giveBack returns the try of a right token.
func (t *tries) giveBack(place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left, known := t.peers[place]
	switch {
	case !known:
	case left.n+1 >= mostTries:
		delete(t.peers, place)
	default:
		left.n++
		t.peers[place] = left
	}
}

// place returns the key that a peer is counted under: "" if there are too many peers.
func (t *tries) place(peer string, now time.Time) string {
	if t.peers == nil {
		t.peers = make(map[string]triesLeft)
	}
	if _, known := t.peers[peer]; known || len(t.peers) < mostPeers {
		return peer
	}
	for p, left := range t.peers {
		if left.now(now) >= mostTries {
			delete(t.peers, p)
		}
	}
	if len(t.peers) < mostPeers {
		return peer
	}
	return ""
}

// seldom limits the rate of a log line. The zero value is ready for use.
type seldom struct {
	mu     sync.Mutex // guards what follows
	said   time.Time
	unsaid int
}

// due counts an event. It returns 0 if it should not be logged, or else the number of events since
// the last that was.
func (s *seldom) due(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaid++
	if !s.said.IsZero() && now.Sub(s.said) < sayEvery {
		return 0
	}
	n := s.unsaid
	s.said, s.unsaid = now, 0
	return n
}

const (
	signInPath  = "/sign-in"
	signOutPath = "/sign-out"
	// sessionFor is how long a browser that has shown the token stays signed in.
	sessionFor = 12 * time.Hour
	// signInBytes bounds the form, in bytes.
	signInBytes = 8 << 10
)

//go:embed signin.html
var signInText string

var signInTemplate = template.Must(template.New("sign-in").Parse(signInText))

// sessions makes and checks the cookies of browsers that have shown the token. Nothing is stored: a
// cookie has its end and a MAC with the token and a key of this process. So sessions end with the
// process, with the token, and after sessionFor.
type sessions struct{ key [32]byte }

func newSessions() *sessions {
	s := &sessions{}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// name returns the cookie's name. Cookies ignore ports, and another weir on this host has a name of
// its own. Over TLS the prefix makes browsers refuse one that was set in plaintext or for a domain.
func (s *sessions) name(secure bool) string {
	sum := sha256.Sum256(s.key[:])
	name := "weir-" + hex.EncodeToString(sum[:4])
	if secure {
		return "__Host-" + name
	}
	return name
}

func (s *sessions) sum(until []byte, token string) []byte {
	of := sha256.Sum256([]byte(token))
	h := hmac.New(sha256.New, s.key[:])
	h.Write(until)
	h.Write(of[:])
	return h.Sum(nil)
}

// begin returns the cookie of a new session.
func (s *sessions) begin(r *http.Request, token string, now time.Time) *http.Cookie {
	until := binary.BigEndian.AppendUint64(nil, uint64(now.Add(sessionFor).Unix()))
	return s.cookie(r, base64.RawURLEncoding.EncodeToString(append(until, s.sum(until, token)...)), sessionFor)
}

func (s *sessions) cookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: s.name(r.TLS != nil), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}

// holds reports whether a request has a session of the token in force.
func (s *sessions) holds(r *http.Request, token string, now time.Time) bool {
	c, err := r.Cookie(s.name(r.TLS != nil))
	if err != nil {
		return false
	}
	value, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(value) != 8+sha256.Size {
		return false
	}
	until := value[:8]
	return hmac.Equal(value[8:], s.sum(until, token)) && now.Unix() < int64(binary.BigEndian.Uint64(until))
}

// signIn checks the token in the form.
func (a *Admin) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, signInBytes)
	want, err := a.token()
	refused := unreadable
	if err == nil {
		refused = a.try(r, strings.TrimSpace(r.PostFormValue("token")), want)
	}
	if refused != nil {
		a.refuse(w, r, refused)
		return
	}
	a.cfg.Log.Info("sign-in to the admin page with the token", zap.String("remote", r.RemoteAddr))
	http.SetCookie(w, a.sessions.begin(r, want, time.Now()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// signOut deletes the browser's cookie.
func (a *Admin) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, a.sessions.cookie(r, "", -time.Second))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// signInPage shows the reason, and asks for the token.
func (a *Admin) signInPage(w http.ResponseWriter, why *refusal) {
	data := struct{ Name, Why string }{a.cfg.Name, ""}
	if why != noToken {
		data.Why = why.text
	}
	var text bytes.Buffer
	if err := signInTemplate.Execute(&text, data); err != nil {
		http.Error(w, why.text, why.code)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(why.code)
	writeText(w, text.String())
}
