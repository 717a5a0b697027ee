package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// secretive is a weir whose origin has a secret of its own for each identity, and the clients that
// have theirs.
type secretive struct {
	*identities
	rng     *rand.Rand
	rules   string
	value   int
	away    bool
	clients map[*relaytest.Client]string // who it is
	logs    strings.Builder              // of the processes that ended
}

// All secrets begin like this, and the origin's versions of them.
const (
	secretKey     = "hunter2 of "
	secretVersion = "origin-version-"
)

func secretOf(who string, value int) relaytest.Resource {
	return relaytest.Resource{Name: "key", Version: fmt.Sprint(secretVersion, value), Body: relaytest.Secret("key", fmt.Sprint(secretKey, who, " ", value))}
}

// secretRules are sets of rules that all allow clients with an identity the secret.
var secretRules = []string{
	`authorization: [{ who: ["subject:*", "uid:*"] }, { who: [anonymous] }]`,
	`authorization: [{ who: ["subject:CN={cn}", "uid:{id}"], names: ["key", "{cn}/key"], types: [sds] }, { who: [anonymous], types: [sds] }]`,
}

const secretOrigin = "secrets: by_identity, group_by: [identity, cluster], identity_to: metadata.WHO"

func (s *secretive) file() string {
	return s.text(secretOrigin) + s.rules + "\nlog: { level: debug }\n"
}

// TestSecretsByIdentity: clients with certificates, of a socket and strangers ask for a secret of
// one name, in any order of joins, leaves, refusals, changes, outages, reloads and restarts. Each
// identity is given its own, and strangers nothing. In the end no page, call, log line or file has a
// byte of any.
func TestSecretsByIdentity(t *testing.T) {
	draw := seed.Of(t, 0)
	s := &secretive{rng: rand.New(rand.NewPCG(draw, draw)), rules: secretRules[0], clients: map[*relaytest.Client]string{}}
	s.identities = startIdentitiesAt(t, secretOrigin, relaytest.OriginConfig{
		Serving: true, Patience: patience, Tailor: func(n *corev3.Node, r relaytest.Resource) relaytest.Resource {
			if who := n.GetMetadata().GetFields()["WHO"].GetStringValue(); r.Name == "key" {
				var value int
				if _, err := fmt.Sscanf(r.Version, secretVersion+"%d", &value); err != nil {
					panic(err)
				}
				return secretOf(who, value)
			}
			return r
		},
	}, s.rules, "\nlog: { level: debug }\n")
	s.change()
	for _, who := range []string{"web", "web", "bill", "uid"} {
		s.comes(who)
	}
	s.stranger()
	for range 40 {
		s.step()
	}
	s.returns()
	s.comes("late")
	s.refuses()
	s.searched()
}

func (s *secretive) step() {
	switch n := s.rng.IntN(20); {
	case n < 6:
		s.comes([]string{"web", "bill", "uid", "late"}[s.rng.IntN(4)])
	case n < 10:
		for c := range s.clients {
			c.CheckClean()
			c.Cancel()
			delete(s.clients, c)
			break
		}
		s.left()
	case n < 13:
		s.change()
	case n < 14:
		s.stranger()
	case n < 15:
		s.refuses()
	case n < 17 && !s.away:
		s.away = true
		s.origin.Stop()
	case n < 17:
		s.returns()
	case n < 19:
		before := s.rules
		s.rules = secretRules[s.rng.IntN(len(secretRules))]
		if s.applied(s.file()); s.rules != before {
			s.reopen("the client may have other names")
		}
	case !s.away:
		s.collects()
		s.reloading.end()
		s.begin(s.t)
		s.reopen("the process ends")
	}
}

// returns has the origin come back.
func (s *secretive) returns() {
	if s.away {
		s.away = false
		s.origin.Start()
		s.all("after an outage each has its own")
	}
}

// identity is who a client is to the origin.
func (s *secretive) identity(who string) string {
	if who == "uid" {
		return fmt.Sprint("uid:", os.Getuid())
	}
	return "subject:CN=" + who
}

// has waits until a client has the present secret of its identity.
func (s *secretive) has(c *relaytest.Client, who, sentence string) {
	s.t.Helper()
	want := string(secretOf(s.identity(who), s.value).Body.Value)
	c.Await(0, func(x *relaytest.State) bool { return x.Body(relaytest.SecretType, "key") == want }, who+": "+sentence)
	for _, r := range c.Responses(relaytest.SecretType) {
		for _, item := range r.Items {
			if !strings.Contains(string(item.Body.GetValue()), secretKey+s.identity(who)+" ") {
				s.t.Fatalf("%s is sent %q", who, item.Body.GetValue())
			}
		}
	}
}

// all are judged.
func (s *secretive) all(sentence string) {
	s.t.Helper()
	for c, who := range s.clients {
		s.has(c, who, sentence)
	}
}

// reopen has all clients come again, whose streams end. While the origin is away that would be in
// vain: what the last client of an identity leaves is dropped.
func (s *secretive) reopen(why string) {
	s.t.Helper()
	clients := s.clients
	s.clients = map[*relaytest.Client]string{}
	for c := range clients {
		c.AwaitEnd(why)
		c.CheckClean()
	}
	for _, who := range clients {
		if !s.away {
			s.comes(who)
		}
	}
}

// comes opens a stream. While the origin is away only who shares a group gets anything.
func (s *secretive) comes(who string) {
	s.t.Helper()
	c := s.client(who, bothDialects[s.rng.IntN(2)])
	c.Request(relaytest.SecretType, "key")
	shared := false
	for _, other := range s.clients {
		shared = shared || other == who
	}
	if s.away && !shared {
		if code := c.AwaitEnd("nothing is known for this identity"); code != codes.Unavailable || c.Count(relaytest.SecretType) != 0 {
			s.t.Fatalf("%s: ended with %s, and %d secrets", who, code, c.Count(relaytest.SecretType))
		}
		return
	}
	s.has(c, who, "it is given its own")
	s.clients[c] = who
}

// stranger is refused.
func (s *secretive) stranger() {
	c := s.client("anonymous", relaytest.Delta)
	c.Request(relaytest.SecretType, "key")
	c.Await(0, func(x *relaytest.State) bool {
		return codes.Code(x.Error(relaytest.SecretType, "key").GetCode()) == codes.PermissionDenied
	}, "a stranger is refused")
	if c.Count(relaytest.SecretType) != 0 {
		s.t.Fatal("a stranger is given a secret")
	}
	c.Cancel()
}

// change has the secrets of all identities change.
func (s *secretive) change() {
	if s.away {
		return
	}
	s.value++
	s.origin.Put(relaytest.SecretType, relaytest.Resource{Name: "key", Version: fmt.Sprint(secretVersion, s.value), Body: relaytest.Secret("key", fmt.Sprint("of nobody ", s.value))})
	s.all("a change reaches it")
}

// refuses has a client refuse its secret, and quote it.
func (s *secretive) refuses() {
	if s.away {
		return
	}
	c := relaytest.NewClient(s.t, s.dial("bill"), relaytest.ClientConfig{ManualACK: true, Patience: patience})
	c.Open(relaytest.Node("refusing", "edge"))
	c.Request(relaytest.SecretType, "key")
	c.Expect(relaytest.SecretType, "it is given its own")
	c.NACK(relaytest.SecretType, "bad "+secretKey+"bill")
	await(s.t, "weir hears the refusal", func() bool { _, page := s.get("/nacks"); return strings.Contains(page, "refusing") })
	c.Cancel()
	s.left()
}

// left waits until weir knows who is gone: who comes next shares a group with those who are there.
func (s *secretive) left() {
	s.t.Helper()
	await(s.t, "who has left is gone", func() bool {
		n := 0
		for _, g := range s.table.Origin("mesh").Groups() {
			n += g.Clients
		}
		return n == len(s.clients)
	})
}

// collects keeps what the process has logged.
func (s *secretive) collects() {
	for _, e := range s.reloading.logs.All() {
		fmt.Fprintln(&s.logs, e.Message, e.ContextMap())
	}
}

// searched looks for secrets wherever weir shows or keeps something.
func (s *secretive) searched() {
	s.t.Helper()
	admin := s.admin.listener.Addr().String()
	s.collects()
	seen := map[string]string{"the log": s.logs.String()}
	for _, path := range []string{
		"/", "/groups", "/groups/suggest", "/clients", "/nacks", "/nacks/book", "/origins", "/metrics", "/config", "/resources", "/history",
		"/history?type=sds&name=key&full=true", "/history/diff?type=sds&name=key",
		"/resources?bodies=true", "/resources?type=sds&name=key", "/explain?node=client-delta&type=sds&name=key", "/explain?node=client-sotw&type=sds&name=key",
		"/overview", "/series", "/resources?match=*e*&bodies=true",
	} {
		_, seen[path] = s.get(path)
	}
	if !strings.Contains(seen["/resources"], `"key"`) {
		s.t.Errorf("a secret is shown by its name: %s", seen["/resources"])
	}
	for _, command := range []string{"status", "nacks", "clients"} {
		_, seen[command], _ = weir(s.t, command, "--admin", admin)
	}
	status, err := statusv3.NewClientStatusDiscoveryServiceClient(dial(s.t, admin)).FetchClientStatus(s.t.Context(), &statusv3.ClientStatusRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	seen["CSDS"] = protojson.Format(status)
	s.reloading.end()
	for _, dir := range []string{s.dir, filepath.Dir(s.reloading.file)} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				var b []byte
				b, err = os.ReadFile(name)
				seen[name] = string(b)
			}
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for where, text := range seen {
		for _, f := range []string{"hunter2", hex.EncodeToString([]byte("hunter2")), base64.StdEncoding.EncodeToString([]byte("hunter")), secretVersion} {
			if i := strings.Index(text, f); i >= 0 {
				s.t.Errorf("%s has %q: ...%s", where, f, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}
