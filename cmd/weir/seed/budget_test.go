package seed

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestHeadsTogether: of many siblings with heads that are as large as they may be, as many are heard
// as there is room for.
func TestHeadsTogether(t *testing.T) {
	order := `{"group": "0123456789abcdef0123456789abcdef", "to": "0123456789ab", "by": "somebody"},`
	head := `{"process": "p%d", "deployment": "weir", "origins": [{"name": "mesh", "rollbacks": [` + strings.Repeat(order, 30_000) + `{}]}]}`
	core, logs := observer.New(zap.InfoLevel)
	cfg := Config{Process: "own", Deployment: "weir", Origins: []string{"mesh"}, Log: zap.New(core)}
	for i := range 20 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, head, i) }))
		defer s.Close()
		cfg.Peers = append(cfg.Peers, Peer{Address: strings.TrimPrefix(s.URL, "http://")})
	}
	heard := New(cfg).Heads(t.Context())
	refused := 0
	for _, e := range logs.FilterMessage("a sibling cannot be asked").All() {
		if strings.Contains(fmt.Sprint(e.ContextMap()), "the heads of all siblings need more than 134217728 bytes") {
			refused++
		}
	}
	if len(heard) == 0 || refused == 0 || len(heard)+refused != 20 {
		t.Errorf("%d are heard, and %d are not: %v", len(heard), refused, logs.All())
	}
}
