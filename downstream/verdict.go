package downstream

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// ack records that the client accepted a response.
func (s *session) ack(now time.Time, st *streamType, x *sent) {
	if s.telling {
		s.eventJudged(now, EventAcked, st, x)
	}
	if x.real {
		st.nacking, st.ackedAt = false, now.Sub(s.opened)
		st.ackedVersion = x.version
		if x := &x.dated; x.lag != nil {
			x.lag.Acked(now.Sub(s.opened)-x.since, s.exemplar(x.lag, st, s.opened.Add(x.since)))
		}
	}
	if st.sub != nil {
		st.lacking()
	}
}

// nack records that the client refused a response: for people, and so that it is not sent again
// before it changes (NONCE-11, DELTA-15). No other client is affected (RELAY-34).
func (s *session) nack(now time.Time, st *streamType, x *sent, nonce string, detail *status.Status) {
	st.nacks++
	st.counts.Nack()
	nack, names := nackOf(now, st.typeURL, nonce, detail)
	st.nacked = st.nacked.with(x, nack)
	n := note{typeURL: st.typeURL, nack: nack, sent: x.at, origin: s.cfg.origin.Name(), group: s.group.Key()}
	if x.real {
		n.about, n.mixed = st.contents(x, names)
	}
	s.notes = append(s.notes, n)
	if s.telling {
		s.eventJudged(now, EventNacked, st, x).Text = clip(nack.Message, maxNackText)
	}
	st.nacking = st.nacking || x.real
	x.nacked = true
}

// contents is what a refused response had that can be told apart. mixed: it may have
// resources of several origins.
func (st *streamType) contents(x *sent, names []string) (all []relay.Content, mixed bool) {
	parts, whole := st.sub.Contents(x.number, names)
	for _, p := range parts {
		all = append(all, st.sub.sources[p.Source].wants.Content(p))
	}
	if len(all) == 0 && whole {
		if c, ok := st.sub.sources[0].wants.List(st.sub.From()); ok {
			all = append(all, c)
		}
	}
	return all, slices.ContainsFunc(st.sub.sources, func(x source) bool { return x.group.Origin() != st.sub.sources[0].group.Origin() })
}

// nackOf is what is kept of a refusal, and the words in it that may name resources.
func nackOf(now time.Time, typeURL, nonce string, detail *status.Status) (n Nack, names []string) {
	n = Nack{Nonce: nonce, Message: keyless(clip(detail.GetMessage(), maxNackKept)), At: now}
	names = candidates(n.Message)
	if xds.IsSecret(typeURL) {
		n.Message = unsaid
	}
	return n, names
}

// unsaid replaces the text of a client's NACK of a secret, which may quote the secret (RELAY-76).
const unsaid = "(what the client says of a secret is not kept)"

// maxNackKept bounds the text of a NACK in memory, in bytes.
const maxNackKept = 4 << 10

// nacked is what the client refused of a type, for people (RELAY-34). nil: nothing.
type nacked struct {
	newest Nack
	// numbers are those of the cursor's answers that were refused last, oldest first, with the
	// reason of each; at most maxUnanswered.
	numbers []uint64
	why     []Nack
}

// with adds the refusal of a response.
func (n *nacked) with(x *sent, why Nack) *nacked {
	if n == nil {
		n = &nacked{}
	}
	n.newest = why
	if !x.real || x.nacked { // several messages of one answer were refused
		return n
	}
	if len(n.numbers) == maxUnanswered {
		n.numbers, n.why = slices.Delete(n.numbers, 0, 1), slices.Delete(n.why, 0, 1)
	}
	n.numbers, n.why = append(n.numbers, x.number), append(n.why, why)
	return n
}

// forget drops all refusals but keeps the text of the newest.
func (n *nacked) forget() {
	if n != nil {
		n.numbers, n.why = nil, nil
	}
}

// last is the newest refusal; zero: there was none.
func (n *nacked) last() Nack {
	if n == nil {
		return Nack{}
	}
	return n.newest
}

// exemplar names the client of a measured propagation of a change received at a time. It is empty
// if nobody asked for exemplars.
func (s *session) exemplar(lag *metrics.Propagation, st *streamType, received time.Time) metrics.Exemplar {
	if !lag.Exemplars() {
		return metrics.Exemplar{}
	}
	e := metrics.Exemplar{Stream: s.id, Node: s.nodeID}
	if s.cfg.traceID != nil {
		e.Trace = s.cfg.traceID(st.typeURL, received)
	}
	return e
}

// nackLog logs NACKs, at most one line per type and second, with the number of lines left out: a
// bad resource is refused by every client at once (RELAY-34).
type nackLog struct {
	log  *zap.Logger // set once
	rate sampler     // keyed by the type's short name
}

func newNackLog(log *zap.Logger) *nackLog {
	return &nackLog{log: log, rate: sampler{every: time.Second}}
}

// refused logs and books what a client refused.
func (s *Server) refused(n *note, st *stream, session *session) {
	who := client{node: session.client(), peer: st.address()}
	if session.from.peer != nil {
		who.key = *session.from.peer
	}
	who.key.conn = 0 // the next connection is the same client's
	s.nacks.note(n.typeURL, n.nack, st, who.node)
	s.book.refused(n, who)
	if s.cfg.Refused != nil {
		for _, r := range n.refusals(who.node) {
			s.cfg.Refused(r)
		}
	}
	said := n.nack.Message
	if n.mixed {
		said = "" // an origin is told nothing of what another has
	}
	for i := range n.about {
		n.about[i].Report(n.nack.At, s.book.hash(who), said)
	}
}

// maxNackText bounds the client's error text in the log, in bytes.
const maxNackText = 1 << 10

// note logs a NACK, unless its type was logged within the last second.
func (l *nackLog) note(typeURL string, n Nack, st *stream, node string) {
	more, write := l.rate.admit(metrics.ShortName(typeURL), n.At)
	if !write {
		return
	}
	l.log.Warn("a client refused a response", zap.String("type_url", typeURL), zap.String("client", node),
		st.session.from.field(), zap.Uint64("stream", st.id), zap.String("nonce", n.Nonce), zap.String("message", clip(n.Message, maxNackText)),
		zap.Int("not_logged", more))
}

// maxCandidates is how many words of a NACK are tried as names of resources.
const maxCandidates = 64

// candidates are the words of a client's message that may be names of resources.
func candidates(message string) (words []string) {
	fields := strings.FieldsFunc(message, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("'\"`,", r) })
	for _, word := range fields {
		for _, w := range []string{word, strings.Trim(word, ":;.()[]{}<>")} {
			if len(words) == maxCandidates {
				return words
			}
			if w != "" && (len(words) == 0 || words[len(words)-1] != w) {
				words = append(words, w)
			}
		}
	}
	return words
}

var privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)

// keyless is a client's message without private keys that it quotes.
func keyless(message string) string {
	if !strings.Contains(message, "PRIVATE KEY-----") {
		return message
	}
	return privateKey.ReplaceAllString(message, "[blanked]")
}

// maxPattern bounds the words of a rejection in the book.
const maxPattern = 512

// pattern is a client's message without what differs from client to client and from time to time:
// names of resources, the node's id, numbers, addresses and hashes.
func pattern(message string, names []string, node string) string {
	message = replaceWord(message, node, "{node}")
	longest := slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, name := range longest { // one may be a part of another
		message = replaceWord(message, name, "{name}")
	}
	var b strings.Builder
	for i, word := range strings.Fields(message) {
		if i > 0 {
			b.WriteByte(' ')
		}
		for word != "" {
			n := strings.IndexFunc(word, func(r rune) bool { return !alphanumeric(r) })
			switch {
			case n < 0:
				n = len(word)
			case n == 0:
				_, n = utf8.DecodeRuneInString(word)
			}
			b.WriteString(withoutNumbers(word[:n]))
			word = word[n:]
		}
		if b.Len() > maxPattern {
			break
		}
	}
	return clip(b.String(), maxPattern)
}

func alphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// replaceWord replaces a text wherever it stands for itself.
func replaceWord(message, text, stand string) string {
	if text == "" || !strings.Contains(message, text) {
		return message
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(message, text)
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case before != "" && alphanumeric(last), after != "" && alphanumeric(next):
			b.WriteString(text)
		default:
			b.WriteString(stand)
		}
		message = after
	}
}

// withoutNumbers replaces a run of letters and digits if it is a number, or is made of at least
// four hexadecimal digits, with one of 0 to 9 among them. In others, such as v3, digits stay if
// they are few.
func withoutNumbers(run string) string {
	digits, hex := 0, 0
	for i := range len(run) {
		switch c := run[i]; {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			hex++
		}
	}
	switch {
	case digits == 0:
		return run
	case digits == len(run), hex == len(run) && hex >= 4, digits > 2:
		return "#"
	}
	return run
}
