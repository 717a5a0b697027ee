package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// Answers grow with what clients and origins have chosen. Here is what bounds them.

const (
	// mostAnswer is the ceiling of an answer in JSON, in bytes: a thousand entries of what is
	// usual, several times over, and little beside the memory of a process that holds that much.
	mostAnswer = 16 << 20
	// mostOfOrigin is how many entries of one kind an origin is shown with.
	mostOfOrigin = 100
)

// narrower is what is said of an answer that would exceed the ceiling.
var narrower = fmt.Sprintf("an answer has at most %d MiB: ask for fewer entries with limit=, for what is named, or without bodies", mostAnswer>>20)

// list collects entries, as JSON, up to a limit and to the ceiling of their answer.
type list[T any] struct {
	items []json.RawMessage
	limit int
	room  *int // bytes that are left of the answer; lists of one answer share it
	more  bool // there are more
	cut   bool // because of the ceiling
}

// beside is a list in the same answer.
func beside[T, U any](l *list[U]) *list[T] {
	return &list[T]{items: []json.RawMessage{}, limit: l.limit, room: l.room}
}

// add adds an entry. It returns false once the list is full.
func (l *list[T]) add(item T) bool {
	if l.more || len(l.items) == l.limit {
		l.more = true
		return false
	}
	text, err := json.Marshal(item)
	if err != nil {
		return true // it has no value without JSON
	}
	text = visible.JSON(text) // which makes it longer
	const inList = 2          // in an object and its array
	if *l.room -= indentedSize(text, inList) + len(",\n    "); *l.room < 0 {
		l.more, l.cut = true, true
		return false
	}
	l.items = append(l.items, text)
	return true
}

// addTo adds the list to an answer, under a name, and whether it is all there is.
func (l *list[T]) addTo(answer map[string]any, name string) {
	answer[name], answer["truncated"] = l.items, l.more
	if l.cut {
		answer["truncated_by"] = narrower
	}
}

// stuck reports whether a page has no room for its first entry, so that no next page would help.
func (l *list[T]) stuck() bool { return l.cut && len(l.items) == 0 }

// writeJSON answers in JSON for people and programs.
func writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text = visible.JSON(text)
	size := indentedSize(text, 0)
	if size > mostAnswer+mostAround {
		http.Error(w, narrower, http.StatusInsufficientStorage)
		return
	}
	out := bytes.NewBuffer(make([]byte, 0, size+1))
	_ = json.Indent(out, text, "", "  ") // it is JSON
	out.WriteByte('\n')
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // an error means that the client has left
}

// mostAround is what an answer may have around its lists, in bytes.
const mostAround = 2 << 10

var errTooLarge = refusedf(http.StatusInsufficientStorage, "%s", narrower)

// indentedSize returns how many bytes compact JSON has with an indentation of two spaces, at a
// depth. What is nested deeply grows a hundredfold by that.
func indentedSize(text []byte, depth int) (n int) {
	line := func() { n += 1 + 2*depth }
	for i := 0; i < len(text); i++ {
		n++
		switch c := text[i]; c {
		case '"':
			end := i + 1
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			n, i = n+end-i, end
		case '{', '[':
			if next := text[i+1]; next == '}' || next == ']' {
				n, i = n+1, i+1
				continue
			}
			depth++
			line()
		case ',':
			line()
		case ':':
			n++
		case '}', ']':
			depth--
			line()
		}
	}
	return n
}

// cutLists leaves the first entries of the lists of an origin that grow with its groups.
func (o *Origin) cutLists() {
	o.NACKs, o.NACKsLeftOut = firstOf(o.NACKs)
	o.Quarantined, o.QuarantinedLeftOut = firstOf(o.Quarantined)
	o.Canary, o.CanaryLeftOut = firstOf(o.Canary)
	if b := o.Rollback; b != nil {
		few := *b
		few.Groups, few.LeftOut = firstOf(b.Groups)
		o.Rollback = &few
	}
}

// firstOf returns the first entries, and how many others there are.
func firstOf[T any](all []T) (_ []T, leftOut int) {
	n := min(len(all), mostOfOrigin)
	return all[:n:n], len(all) - n
}

// defaultLimit is the length of a list without limit=.
const defaultLimit = 1000

func newList[T any](p *params) *list[T] {
	room := mostAnswer
	l := &list[T]{items: []json.RawMessage{}, limit: defaultLimit, room: &room}
	if text := p.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			p.wrongf("limit=%q: write a whole number of at least 1", text)
		}
		l.limit = n
	}
	return l
}

// answer is an answer with the items under a name; truncated says that there are more.
func (l *list[T]) answer(name string) (map[string]any, error) {
	answer := map[string]any{}
	if l.stuck() {
		return answer, errTooLarge
	}
	l.addTo(answer, name)
	return answer, nil
}

func (a *Admin) origins(*http.Request) (any, error) {
	_, file := a.cfg.Effective(false)
	origins := a.cfg.Origins()
	for i := range origins {
		origins[i].cutLists()
	}
	out := map[string]any{"origins": origins, "config": file}
	if s := a.cfg.Snapshot(); s != nil {
		out["snapshot"] = s
	}
	return out, nil
}

func (a *Admin) groups(r *http.Request) (any, error) {
	p := a.params(r, "origin", "limit", "full")
	l, full := newList[Group](p), p.flag("full")
	if p.origin(); p.err != nil {
		return nil, p.err
	}
	for _, o := range p.asked() {
		groups := inspect.Status(o)
		for i := range groups {
			g := groupOf(&groups[i], full)
			// left out if it has no JSON: NaN in its metadata
			g.Node, _ = protojson.Marshal(groups[i].Node)
			if !l.add(g) {
				return l.answer("groups")
			}
		}
	}
	return l.answer("groups")
}

// clientNACKs returns the last NACKs of the open streams, newest first.
func (a *Admin) clientNACKs() []ClientNACK {
	var all []ClientNACK
	clients := a.cfg.Clients()
	for i := range clients {
		all = append(all, nacksOf(&clients[i])...)
	}
	slices.SortStableFunc(all, func(x, y ClientNACK) int { return cmp.Compare(y.At.UnixNano(), x.At.UnixNano()) })
	return all
}

// originNACKs adds to an answer what weir refused on the streams to origins, of one origin and type
// if they are given.
func (a *Admin) originNACKs(answer map[string]any, l *list[originNACK], origin, typeURL string) {
	leftOut := 0
	for _, o := range a.cfg.Origins() {
		if origin != "" && o.Name != origin {
			continue
		}
		for _, n := range o.NACKs {
			if (typeURL == "" || n.Type == metrics.ShortName(typeURL)) && !l.add(originNACK{o.Name, n}) {
				leftOut++
			}
		}
	}
	if answer["origins"] = l.items; leftOut > 0 {
		answer["origins_left_out"] = leftOut
	}
}
