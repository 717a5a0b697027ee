package csds

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

func requestOf(t *testing.T, text string) *statusv3.ClientStatusRequest {
	t.Helper()
	req := &statusv3.ClientStatusRequest{}
	if err := protojson.Unmarshal([]byte(text), req); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return req
}

const matched = `{"id": "Pod-1.default", "cluster": "edge", "metadata": {
	"NAME": "pod-1", "empty": "", "weight": 2.5, "canary": true, "none": null, "zones": ["a", "b"], "LABELS": {"app": "web", "tier": null}
}}`

// TestMatchers: what a matcher says, and whether the node is asked for by it (CSDS-5).
func TestMatchers(t *testing.T) {
	node := &corev3.Node{}
	if err := protojson.Unmarshal([]byte(matched), node); err != nil {
		t.Fatal(err)
	}
	id := func(m string) string { return `{"node_id": {` + m + `}}` }
	meta := func(path, value string) string {
		keys := strings.Split(path, ".")
		return `{"node_metadatas": [{"path": [{"key": "` + strings.Join(keys, `"}, {"key": "`) + `"}], "value": {` + value + `}}]}`
	}
	for text, want := range map[string]bool{
		``:                             true, // nothing is said
		`{}`:                           true, // a matcher of no parts
		id(`"exact": "Pod-1.default"`): true,
		id(`"exact": "pod-1.default"`): false,
		id(`"exact": "pod-1.DEFAULT", "ignore_case": true`):                                                        true,
		id(`"prefix": "Pod-"`):                                                                                     true,
		id(`"prefix": "pod-"`):                                                                                     false,
		id(`"prefix": "pod-", "ignore_case": true`):                                                                true,
		id(`"suffix": ".default"`):                                                                                 true,
		id(`"suffix": ".DEFAULT"`):                                                                                 false,
		id(`"suffix": ".DEFAULT", "ignore_case": true`):                                                            true,
		id(`"contains": "1.d"`):                                                                                    true,
		id(`"contains": "1.D"`):                                                                                    false,
		id(`"contains": "1.D", "ignore_case": true`):                                                               true,
		id(`"safe_regex": {"regex": "Pod-[0-9]+\\.(default|kube)"}`):                                               true,
		id(`"safe_regex": {"regex": "Pod-"}`):                                                                      false, // the whole text has to match
		id(`"safe_regex": {"regex": "Pod-1|x"}`):                                                                   false, // each alternative, too
		id(`"safe_regex": {"regex": "pod-1.default"}, "ignore_case": true`):                                        false, // which is not for them
		meta("NAME", `"string_match": {"exact": "pod-1"}`):                                                         true,
		meta("NAME", `"string_match": {"exact": "pod-2"}`):                                                         false,
		meta("empty", `"string_match": {"exact": ""}`):                                                             true,
		meta("missing", `"string_match": {"exact": ""}`):                                                           false,
		meta("LABELS.app", `"string_match": {"prefix": "we"}`):                                                     true,
		meta("LABELS.app.more", `"string_match": {"prefix": "we"}`):                                                false,
		meta("NAME.app", `"present_match": true`):                                                                  false,
		meta("LABELS.tier", `"null_match": {}`):                                                                    true,
		meta("none", `"null_match": {}`):                                                                           true,
		meta("missing", `"null_match": {}`):                                                                        false,
		meta("NAME", `"null_match": {}`):                                                                           false,
		meta("weight", `"double_match": {"exact": 2.5}`):                                                           true,
		meta("weight", `"double_match": {"exact": 2}`):                                                             false,
		meta("weight", `"double_match": {"range": {"start": 2.5, "end": 3}}`):                                      true,
		meta("weight", `"double_match": {"range": {"start": 1, "end": 2.5}}`):                                      false,
		meta("NAME", `"double_match": {"exact": 0}`):                                                               false,
		meta("canary", `"bool_match": true`):                                                                       true,
		meta("canary", `"bool_match": false`):                                                                      false,
		meta("missing", `"bool_match": false`):                                                                     false,
		meta("zones", `"list_match": {"one_of": {"string_match": {"exact": "b"}}}`):                                true,
		meta("zones", `"list_match": {"one_of": {"string_match": {"exact": "c"}}}`):                                false,
		meta("NAME", `"list_match": {"one_of": {"string_match": {"exact": "pod-1"}}}`):                             false,
		meta("weight", `"or_match": {"value_matchers": [{"bool_match": true}, {"double_match": {"exact": 2.5}}]}`): true,
		meta("weight", `"or_match": {"value_matchers": [{"bool_match": true}, {"double_match": {"exact": 3}}]}`):   false,
		meta("none", `"present_match": true`):                                                                      true,
		meta("missing", `"present_match": true`):                                                                   false,
		meta("none", `"present_match": false`):                                                                     false,
		id(`"exact": "x"`) + `, ` + id(`"exact": "Pod-1.default"`):                                                 true,  // one of several
		`{"node_id": {"exact": "Pod-1.default"}, ` + meta("canary", `"bool_match": false`)[1:]:                     false, // all parts of one
		`{"node_id": {"exact": "Pod-1.default"}, ` + meta("canary", `"bool_match": true`)[1:]:                      true,
		`{"node_id": {"exact": "x"}, ` + meta("canary", `"bool_match": true`)[1:]:                                  false,
	} {
		all, err := compile(requestOf(t, `{"node_matchers": [`+text+`]}`).GetNodeMatchers())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := all.matches(node); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	bare, err := compile(requestOf(t, `{"node_matchers": [`+meta("NAME", `"present_match": true`)+`]}`).GetNodeMatchers())
	if err != nil || bare.matches(nil) {
		t.Errorf("%v: nobody is matched", err)
	}
}

// TestWrongMatchers: what has no meaning is refused, by the place where it is.
func TestWrongMatchers(t *testing.T) {
	deep := `"bool_match": true`
	for range maxDepth {
		deep = `"or_match": {"value_matchers": [{` + deep + `}]}`
	}
	path := `"path": [{"key": "a"}]`
	for text, want := range map[string]string{
		`{"node_id": {}}`:                                                                                 "node_id: it has no pattern",
		`{"node_id": {"prefix": ""}}`:                                                                     "node_id: its pattern is empty",
		`{"node_id": {"safe_regex": {"regex": "("}}}`:                                                     "missing closing",
		`{"node_id": {"safe_regex": {"regex": ")|("}}}`:                                                   "unexpected )",
		`{"node_id": {"safe_regex": {}}}`:                                                                 "is empty",
		`{"node_id": {"custom": {}}}`:                                                                     "not understood",
		`{"node_metadatas": [{}]}`:                                                                        "node_metadatas[0]: it has no path",
		`{"node_metadatas": [{"path": [{}]}]}`:                                                            "has no key",
		`{"node_metadatas": [{` + path + `}]}`:                                                            "has no value",
		`{"node_metadatas": [{` + path + `, "value": {}}]}`:                                               "has no pattern",
		`{"node_metadatas": [{` + path + `, "value": {"double_match": {}}}]}`:                             "number has no pattern",
		`{"node_metadatas": [{` + path + `, "value": {"list_match": {}}}]}`:                               "list has no pattern",
		`{"node_metadatas": [{` + path + `, "value": {"or_match": {}}}]}`:                                 "alternatives are none",
		`{"node_metadatas": [{` + path + `, "value": {"string_match": {"safe_regex": {"regex": "["}}}}]}`: "missing closing",
		`{"node_metadatas": [{` + path + `, "value": {` + deep + `}}]}`:                                   "in one another",
		strings.Repeat(`{}, `, maxParts) + `{}`:                                                           "more than 1000 parts",
	} {
		_, err := compile(requestOf(t, `{"node_matchers": [`+text+`]}`).GetNodeMatchers())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "node_matchers") {
			t.Errorf("%s: %v, want one with %q", text, err, want)
		}
	}
}
