package csds

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// nodeMatch matches a node if one of its matchers does; a matcher matches if all its parts do
// (CSDS-5). Without matchers all nodes match.
type nodeMatch []nodeMatcher

type nodeMatcher struct {
	id       stringMatch // nil: any
	metadata []metadataMatcher
}

type metadataMatcher struct {
	path  []string
	value valueMatch
}

// What all matchers of a request may have together. Each is tried on each node, and a short regular
// expression can stand for a long program.
const (
	maxParts       = 1000
	maxRegexBytes  = 4 << 10 // of text
	maxRegexStates = 20_000  // instructions of programs, as estimated
)

// compiler compiles the matchers of one request, and counts what they have.
type compiler struct{ parts, regexBytes, regexStates int }

// compile compiles the matchers of a request. The error says which one is wrong.
func compile(matchers []*matcherv3.NodeMatcher) (nodeMatch, error) {
	var all nodeMatch
	c := &compiler{}
	for i, m := range matchers {
		x, err := c.node(m)
		if err != nil {
			return nil, fmt.Errorf("node_matchers[%d].%w", i, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// part counts a part of a matcher.
func (c *compiler) part() error {
	if c.parts++; c.parts > maxParts {
		return fmt.Errorf("the matchers of a request have more than %d parts", maxParts)
	}
	return nil
}

func (c *compiler) node(m *matcherv3.NodeMatcher) (x nodeMatcher, err error) {
	if err := c.part(); err != nil {
		return x, err
	}
	if m.GetNodeId() != nil {
		if x.id, err = c.text(m.NodeId); err != nil {
			return x, fmt.Errorf("node_id: %w", err)
		}
	}
	for i, s := range m.GetNodeMetadatas() {
		part, err := c.metadata(s)
		if err != nil {
			return x, fmt.Errorf("node_metadatas[%d]: %w", i, err)
		}
		x.metadata = append(x.metadata, part)
	}
	return x, nil
}

func (c *compiler) metadata(m *matcherv3.StructMatcher) (x metadataMatcher, err error) {
	for _, segment := range m.GetPath() {
		if segment.GetKey() == "" {
			return x, errors.New("a segment of its path has no key")
		}
		x.path = append(x.path, segment.GetKey())
	}
	if len(x.path) == 0 {
		return x, errors.New("it has no path")
	}
	if m.GetValue() == nil {
		return x, errors.New("it has no value")
	}
	x.value, err = c.value(m.Value, maxDepth)
	return x, err
}

func (all nodeMatch) matches(n *corev3.Node) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(m nodeMatcher) bool { return m.matches(n) })
}

func (m *nodeMatcher) matches(n *corev3.Node) bool {
	return (m.id == nil || m.id(n.GetId())) &&
		!slices.ContainsFunc(m.metadata, func(x metadataMatcher) bool { return !x.matches(n.GetMetadata()) })
}

// matches looks up the path. Nothing matches a missing value.
func (m *metadataMatcher) matches(s *structpb.Struct) bool {
	v := structpb.NewStructValue(s)
	for _, key := range m.path {
		v = v.GetStructValue().GetFields()[key]
	}
	return m.value(v)
}

type (
	stringMatch func(string) bool
	// valueMatch is called with nil if there is no value.
	valueMatch func(*structpb.Value) bool
)

// maxDepth bounds the nesting of list and or matchers.
const maxDepth = 16

// text compiles a StringMatcher. ignore_case applies to all patterns except regular
// expressions, which match the whole text.
func (c *compiler) text(m *matcherv3.StringMatcher) (stringMatch, error) {
	fold := func(s string) string { return s }
	if m.GetIgnoreCase() {
		fold = strings.ToLower
	}
	by := func(is func(text, pattern string) bool, pattern string) (stringMatch, error) {
		if pattern == "" {
			return nil, errors.New("its pattern is empty")
		}
		pattern = fold(pattern)
		return func(s string) bool { return is(fold(s), pattern) }, nil
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		want := fold(p.Exact) // may be empty
		return func(s string) bool { return fold(s) == want }, nil
	case *matcherv3.StringMatcher_Prefix:
		return by(strings.HasPrefix, p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return by(strings.HasSuffix, p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return by(strings.Contains, p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		return c.regex(p.SafeRegex.GetRegex())
	case nil:
		return nil, errors.New("it has no pattern")
	default:
		return nil, fmt.Errorf("%T is not understood here", p)
	}
}

func (c *compiler) regex(text string) (stringMatch, error) {
	if text == "" {
		return nil, errors.New("its regular expression is empty")
	}
	if c.regexBytes += len(text); c.regexBytes > maxRegexBytes {
		return nil, fmt.Errorf("the regular expressions of a request have more than %d bytes", maxRegexBytes)
	}
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		if c.regexStates += states(parsed); c.regexStates > maxRegexStates {
			return nil, fmt.Errorf("the regular expressions of a request have more than %d states, with all that is repeated", maxRegexStates)
		}
	}
	// compiled by itself, since the text around it could make it valid
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	whole, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, err
	}
	return whole.MatchString, nil
}

// states estimates how many instructions a regular expression is compiled to.
func states(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += states(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= 1 + max(re.Min, re.Max)
	}
	return n
}

// value compiles a ValueMatcher.
func (c *compiler) value(m *matcherv3.ValueMatcher, depth int) (valueMatch, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its value has more than %d matchers in one another", maxDepth)
	}
	if err := c.part(); err != nil {
		return nil, err
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_NullMatch_:
		return isNull, nil
	case *matcherv3.ValueMatcher_DoubleMatch:
		return compileDouble(p.DoubleMatch)
	case *matcherv3.ValueMatcher_StringMatch:
		is, err := c.text(p.StringMatch)
		return func(v *structpb.Value) bool {
			s, ok := v.GetKind().(*structpb.Value_StringValue)
			return ok && is(s.StringValue)
		}, err
	case *matcherv3.ValueMatcher_BoolMatch:
		return func(v *structpb.Value) bool {
			b, ok := v.GetKind().(*structpb.Value_BoolValue)
			return ok && b.BoolValue == p.BoolMatch
		}, nil
	case *matcherv3.ValueMatcher_PresentMatch:
		return func(v *structpb.Value) bool { return p.PresentMatch && v.GetKind() != nil }, nil
	case *matcherv3.ValueMatcher_ListMatch:
		return c.list(p.ListMatch, depth-1)
	case *matcherv3.ValueMatcher_OrMatch:
		return c.or(p.OrMatch, depth-1)
	case nil:
		return nil, errors.New("its value has no pattern")
	default:
		return nil, fmt.Errorf("%T is not understood here", p)
	}
}

func isNull(v *structpb.Value) bool {
	_, ok := v.GetKind().(*structpb.Value_NullValue)
	return ok
}

// compileDouble compiles a DoubleMatcher, whose range excludes its end.
func compileDouble(m *matcherv3.DoubleMatcher) (valueMatch, error) {
	number := func(is func(float64) bool) (valueMatch, error) {
		return func(v *structpb.Value) bool {
			n, ok := v.GetKind().(*structpb.Value_NumberValue)
			return ok && is(n.NumberValue)
		}, nil
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.DoubleMatcher_Exact:
		return number(func(n float64) bool { return n == p.Exact })
	case *matcherv3.DoubleMatcher_Range:
		return number(func(n float64) bool { return n >= p.Range.GetStart() && n < p.Range.GetEnd() })
	default:
		return nil, errors.New("its number has no pattern")
	}
}

func (c *compiler) list(m *matcherv3.ListMatcher, depth int) (valueMatch, error) {
	one, ok := m.GetMatchPattern().(*matcherv3.ListMatcher_OneOf)
	if !ok || one.OneOf == nil {
		return nil, errors.New("its list has no pattern")
	}
	is, err := c.value(one.OneOf, depth)
	return func(v *structpb.Value) bool { return slices.ContainsFunc(v.GetListValue().GetValues(), is) }, err
}

func (c *compiler) or(m *matcherv3.OrMatcher, depth int) (valueMatch, error) {
	var all []valueMatch
	for _, x := range m.GetValueMatchers() {
		is, err := c.value(x, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	if len(all) == 0 {
		return nil, errors.New("its alternatives are none")
	}
	return func(v *structpb.Value) bool {
		return slices.ContainsFunc(all, func(is valueMatch) bool { return is(v) })
	}, nil
}
