package downstream

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

var itemWords = map[relay.ItemStatus]string{
	relay.ItemSynced: "synced", relay.ItemNotSent: "not sent", relay.ItemStale: "stale", relay.ItemRefused: "refused",
}

// stands wants exactly these words of a type's items: name, a colon, and the status.
func (p *clientEnd) stands(sentence, typeURL string, want map[string]string) {
	p.tb.Helper()
	got := map[string]string{}
	for _, st := range p.session.types {
		if st.typeURL != typeURL {
			continue
		}
		for _, it := range p.session.items(st) {
			if _, twice := got[it.Name]; twice {
				p.tb.Errorf("%s: %s is there twice", sentence, it.Name)
			}
			got[it.Name] = itemWords[it.Status]
			switch known := it.Version != "" && it.Body != nil && !it.Updated.IsZero(); it.Status {
			case relay.ItemNotSent:
				if it.Version != "" || it.Body != nil || !it.Updated.IsZero() {
					p.tb.Errorf("%s: %s was not sent, and has %+v", sentence, it.Name, it)
				}
			case relay.ItemRefused:
				if it.Nack.Message == "" || it.Nack.At.IsZero() || !known {
					p.tb.Errorf("%s: of %s is known %+v", sentence, it.Name, it)
				}
			case relay.ItemSynced:
				if !known && (it.Version != "" || it.Body != nil) {
					p.tb.Errorf("%s: of %s is known %+v", sentence, it.Name, it)
				}
			}
			if it.Body != nil && it.Version != it.Body.Version() {
				p.tb.Errorf("%s: %s has version %s, and its body %s", sentence, it.Name, it.Version, it.Body.Version())
			}
		}
	}
	if !maps.Equal(got, want) {
		p.tb.Errorf("%s: %v, want %v", sentence, got, want)
	}
}

// agrees answers a response of a type, and keeps asking what it asked.
func (p *clientEnd) agrees(typeURL string, names ...string) {
	p.tb.Helper()
	if p.session.delta {
		p.acks(typeURL)
		return
	}
	p.asks(typeURL, names...)
}

// TestItemsByName: what is asked by name goes through all states, in either dialect (CSDS-3).
func TestItemsByName(t *testing.T) {
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprint("delta ", delta), func(t *testing.T) {
			r := newRig(t)
			p := r.client(delta)
			p.asks2(eds, "a", "b")
			p.stands("nothing came", eds, map[string]string{"a": "not sent", "b": "not sent"})
			r.up()
			r.says(eds, "a=1")
			p.stands("it is here, and not sent", eds, map[string]string{"a": "not sent", "b": "not sent"})
			p.writes()
			p.stands("a is on its way", eds, map[string]string{"a": "stale", "b": "not sent"})
			p.agrees(eds, "a", "b")
			p.stands("a is accepted", eds, map[string]string{"a": "synced", "b": "not sent"})
			r.says(eds, "a=2", "b=1")
			p.stands("a is not current", eds, map[string]string{"a": "stale", "b": "not sent"})
			p.writes()
			p.refuses(eds, "no", "a", "b")
			p.stands("both are refused", eds, map[string]string{"a": "refused", "b": "refused"})
			r.says(eds, "b=2")
			p.writes()
			p.stands("b is on its way again", eds, map[string]string{"a": "refused", "b": "stale"})
			p.agrees(eds, "a", "b")
			p.stands("and accepted", eds, map[string]string{"a": "refused", "b": "synced"})
			r.says(eds, "a=3")
			p.writes()
			p.agrees(eds, "a", "b")
			p.stands("both are", eds, map[string]string{"a": "synced", "b": "synced"})
		})
	}
}

// TestItemsOfASet: so does what is asked by `*`. A list of state of the world is judged as a whole.
func TestItemsOfASet(t *testing.T) {
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprint("delta ", delta), func(t *testing.T) {
			r := newRig(t)
			p := r.client(delta)
			p.asks2(cds, "*")
			r.up()
			r.says(cds, "a=1", "b=1")
			r.wait(time.Minute)
			p.stands("nothing was sent", cds, map[string]string{"a": "not sent", "b": "not sent"})
			p.writes()
			p.stands("both are on their way", cds, map[string]string{"a": "stale", "b": "stale"})
			p.agrees(cds, "*")
			p.stands("both are accepted", cds, map[string]string{"a": "synced", "b": "synced"})
			r.says(cds, "b=2", "c=1")
			p.stands("what changed is not current", cds, map[string]string{"a": "synced", "b": "stale", "c": "not sent"})
			p.writes()
			p.refuses(cds, "no", "*")
			word := "refused"
			if delta {
				word = "synced" // it was not in the response
			}
			p.stands("what was in it is refused", cds, map[string]string{"a": word, "b": "refused", "c": "refused"})
			r.says(cds, "c=2")
			p.writes()
			p.agrees(cds, "*")
			word = "synced"
			if delta {
				word = "refused" // nothing better was said of it
			}
			p.stands("what was sent since is accepted", cds, map[string]string{"a": "synced", "b": word, "c": "synced"})
			r.says(cds, "-a")
			p.stands("what went is not current", cds, map[string]string{"a": "stale", "b": word, "c": "synced"})
			r.wait(time.Minute)
			p.writes()
			p.agrees(cds, "*")
			p.stands("and then no item", cds, map[string]string{"b": word, "c": "synced"})
		})
	}
}

// TestItemsOfSecrets: a secret has a name and a status, and nothing else (CSDS-6, RELAY-76).
func TestItemsOfSecrets(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", Secrets: true})
	p := r.client(true)
	p.session.from = caller{local: true}
	p.asks2(sds, "s")
	r.answers(r.lanesOf(true)[0], sds, "s=hunter2")
	p.writes()
	p.refuses(sds, "the key is hunter2", "s")
	n := 0
	for _, it := range p.session.items(p.session.types[0]) {
		n++
		if it.Version != "" || it.Body != nil || strings.Contains(it.Nack.Message, "hunter2") || it.Status != relay.ItemRefused {
			t.Errorf("%+v", it)
		}
	}
	if n != 1 {
		t.Errorf("%d items", n)
	}
}

// TestShownNode: a node is shown as it came; of a long one its group's metadata and what is short
// stay.
func TestShownNode(t *testing.T) {
	long := strings.Repeat("x", maxNodeText)
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: []string{"cluster", "metadata.zone"}})
	for name, n := range map[string]struct {
		said, shown *corev3.Node
	}{
		"short": {
			&corev3.Node{Id: "i", Cluster: "c", UserAgentName: "u", Metadata: fields("zone", "z", "other", "o")},
			&corev3.Node{Id: "i", Cluster: "c", UserAgentName: "u", Metadata: fields("zone", "z", "other", "o")},
		},
		"long": {
			&corev3.Node{Id: "i", Cluster: "c", UserAgentName: "u", Metadata: fields("zone", "z", "other", long)},
			&corev3.Node{Id: "i", Cluster: "c", UserAgentName: "u", Metadata: fields("zone", "z")},
		},
		"without an end": {
			&corev3.Node{Id: "i", Cluster: "c", UserAgentName: long, Metadata: fields("zone", "z", "other", long)},
			&corev3.Node{Id: "i", Cluster: "c", Metadata: fields("zone", "z")},
		},
	} {
		p := r.client(true)
		if err := p.presents(true, n.said, cds); err != nil {
			t.Fatal(err)
		}
		shown, joined := p.session.shown()
		if got := shown.node(); !joined || !proto.Equal(got, n.shown) {
			t.Errorf("%s: %v, want %v", name, got, n.shown)
		}
		if len(shown.text) > maxNodeText {
			t.Errorf("%s: %d bytes are kept", name, len(shown.text))
		}
	}
}

func fields(words ...string) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := 0; i < len(words); i += 2 {
		s.Fields[words[i]] = structpb.NewStringValue(words[i+1])
	}
	return s
}
