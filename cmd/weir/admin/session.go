package admin

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
)

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
	a.cfg.Log.Info("somebody signed in to the admin page with the token", zap.String("remote", r.RemoteAddr))
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
