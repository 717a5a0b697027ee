package downstream

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/xds"
)

// A resource without JSON is left out of an answer where that deletes nothing: the client presents
// no version, so it holds nothing, or its version says that it was answered without the same
// resources, or the type is not sent whole. Any other client may hold the resource as it was. It is
// answered 500 and keeps all that it has.

// leftOut are the resources of a response that have no JSON.
type leftOut struct{ names, why []string }

// typeInError finds the type URL in the library's error text.
var typeInError = regexp.MustCompile(`unable to resolve "([^"]*)"`)

// writable returns the resources of which check returns no error, and notes the others.
func (l *leftOut) writable(all []*anypb.Any, check func(*anypb.Any) error) []*anypb.Any {
	good := make([]*anypb.Any, 0, len(all))
	for i, a := range all {
		err := check(a)
		if err == nil {
			good = append(good, a)
			continue
		}
		why, name := err.Error(), nameInAny(a)
		if found := typeInError.FindStringSubmatch(why); found != nil {
			why = fmt.Sprintf("type %[1]s is unknown, set types[%[1]q].descriptors", found[1])
		}
		l.names = append(l.names, a.GetTypeUrl()+" "+name)
		l.why = append(l.why, fmt.Sprintf("resources[%d], %q, has no JSON: %s", i, clip(name, maxNodeShown), why))
	}
	return good
}

// nameInAny returns the name of a resource: field 1 of all types, and field 3 of a Resource
// around one.
func nameInAny(a *anypb.Any) string {
	if a.MessageName() == (&discoveryv3.Resource{}).ProtoReflect().Descriptor().FullName() {
		return xds.StringField(a.GetValue(), 3)
	}
	return xds.StringField(a.GetValue(), 1)
}

// error says what is left out. err is why the rest has no JSON either, if it has none.
func (l *leftOut) error(err error) *undescribedError {
	why := l.why
	if err != nil && len(why) == 0 {
		why = []string{"the response has no JSON: " + err.Error()}
	}
	return &undescribedError{what: clip(strings.Join(why, "; "), maxNackText)}
}

// mark identifies what is left out, as the end of a version. No other version has a dot
// (xds.SetDigest).
func (l *leftOut) mark() string {
	slices.Sort(l.names)
	sum := sha256.Sum256([]byte(strings.Join(l.names, "\n")))
	return ".without." + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// leavesOut returns the version of an answer without some resources, or the error that the client
// gets instead. It counts and logs what is left out.
func (p *poll) leavesOut(w http.ResponseWriter, answer polled, err *undescribedError) (string, error) {
	held := string(p.in.version)
	whole := p.stream.session.whole(answer.response.kind)
	if err.without == "" || whole && held != "" && !strings.HasSuffix(held, err.without) {
		return "", err
	}
	s := p.stream.server
	s.cfg.Metrics.Poll(pollUnreadable)
	s.limits.leftOut(time.Now(), err.what, p.stream)
	w.Header().Set("Weir-Left-Out", strconv.QuoteToASCII(err.what))
	return answer.version + err.without, nil
}

// leftOut logs that an answer lacks resources.
func (l *limitLog) leftOut(now time.Time, text string, st *stream) {
	more, write := l.rate.admit("left out", now)
	if !write {
		return
	}
	l.log.Warn("an answer as JSON is without resources that have no JSON", zap.String("client", st.session.client()),
		st.session.from.field(), zap.String("message", text), zap.Int("not_logged", more))
}
