package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// document is the printed form of a response, or of the state that several led to.
type document struct {
	TypeURL      string          `json:"type_url"`
	Version      string          `json:"version,omitempty"`
	Nonce        string          `json:"nonce,omitempty"`
	ControlPlane string          `json:"control_plane,omitempty"`
	Resources    []printed       `json:"resources"`
	Removed      []string        `json:"removed,omitempty"`
	Errors       []resourceError `json:"errors,omitempty"`
}

type printed struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	TTL     string `json:"ttl,omitempty"`
	// Constraints say with which dynamic parameters it is served.
	Constraints json.RawMessage `json:"constraints,omitempty"`
	Resource    json.RawMessage `json:"resource,omitempty"` // absent: a heartbeat

	bytes   int
	located bool
	when    string // short form of the constraints
}

type resourceError struct {
	Name    string `json:"name"`
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
}

func documentOf(r *client.Response, known *descriptors.Types) document {
	d := document{
		TypeURL:      r.TypeURL,
		Version:      r.Version,
		Nonce:        r.Nonce,
		ControlPlane: r.ControlPlane,
		Resources:    make([]printed, 0, len(r.Set)),
		Removed:      r.Removed,
	}
	for _, res := range r.Set {
		p := printed{Name: res.Name, Version: res.Version, bytes: len(res.Body.GetValue()), located: res.Located}
		if res.Constraints != nil {
			p.constrain(res.Constraints)
		}
		if res.TTL != 0 {
			p.TTL = res.TTL.String()
		}
		if res.Body != nil {
			p.Resource = readable(res.Body, known)
		}
		d.Resources = append(d.Resources, p)
	}
	for _, e := range r.Errors {
		d.Errors = append(d.Errors, resourceError{Name: e.Name, Code: e.Code.String(), Message: e.Message})
	}
	return d
}

// constrain sets the constraints as received, and their canonical form as the short one.
func (p *printed) constrain(c *discoveryv3.DynamicParameterConstraints) {
	set, err := constraints.Compile(c)
	if p.when = set.Key(); err != nil {
		p.when = err.Error()
	}
	// if it fails there is still the short form
	if text, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(c); err == nil {
		p.Constraints = text
	}
}

// readableMemory is how much memory, in bytes, a body may need to be written as JSON.
const readableMemory = 64 << 20

// readable returns a body as JSON. A body with an unknown type, at any depth, or that does not
// decode is printed as bytes: half of it would mislead. So is one that costs far more than its
// size.
func readable(body *anypb.Any, known *descriptors.Types) json.RawMessage {
	_, err := xds.Known.Any([]byte(body.GetTypeUrl()), body.GetValue(), xds.Bound{Memory: readableMemory, Follow: true})
	if err == nil {
		var text []byte
		if text, err = (protojson.MarshalOptions{UseProtoNames: true, Resolver: known}).Marshal(body); err == nil {
			return text
		}
	}
	raw := map[string]string{
		"@type": body.GetTypeUrl(),
		"value": base64.StdEncoding.EncodeToString(body.GetValue()),
		"note":  fmt.Sprintf("printed as bytes: %v; describe unknown types with --descriptors, or in types of the configuration", err),
	}
	text, err := json.Marshal(raw)
	if err != nil {
		panic(err) // cannot fail for a map of strings
	}
	return text
}

// printer writes documents in one format: each response, or one final state.
type printer interface {
	response(d document) error
	final(d document) error
}

func newPrinter(format string, w io.Writer) printer {
	switch format {
	case uncut:
		return table{wide(w)}
	case "json":
		return jsonPrinter{w}
	case "yaml":
		return yamlPrinter{w}
	}
	return table{w}
}

// shownPlane is the identifier of a control plane, and the weirs that its answer came through
// (STREAM-10).
func shownPlane(identifier string) string {
	plane, weirs, relayed := strings.Cut(identifier, ";weir=")
	if !relayed {
		return identifier
	}
	return strings.TrimPrefix(plane+", through weir "+strings.ReplaceAll(weirs, ";weir=", " and weir "), ", ")
}

// table is for people, and for awk.
type table struct{ w io.Writer }

func (t table) response(d document) error {
	if _, err := fmt.Fprintf(t.w, "# version %q nonce %q control plane %q\n", d.Version, d.Nonce, shownPlane(d.ControlPlane)); err != nil {
		return err
	}
	tw := newTable(t.w)
	for _, r := range d.Resources {
		cells := []any{"set", r.Name, r.Version, r.TTL, r.bytes}
		if r.located {
			cells = append(cells, r.when)
		}
		tw.Row(cells...)
	}
	writeMissing(tw, d)
	return tw.Flush()
}

func (t table) final(d document) error {
	tw := newTable(t.w)
	located := slices.ContainsFunc(d.Resources, func(r printed) bool { return r.located })
	line := func(when any, cells ...any) {
		if located {
			cells = append(cells, when)
		}
		tw.Row(cells...)
	}
	if len(d.Resources) > 0 {
		line("CONSTRAINTS", "NAME", "VERSION", "TTL", "BYTES", "CONTROL PLANE")
	}
	for _, r := range d.Resources {
		line(r.when, r.Name, r.Version, r.TTL, r.bytes, shownPlane(d.ControlPlane))
	}
	return tw.Flush()
}

func writeMissing(tw *tabular.Writer, d document) {
	for _, name := range d.Removed {
		tw.Row("removed", name)
	}
	for _, e := range d.Errors {
		tw.Row("error", e.Name, e.Code, e.Message)
	}
}

// jsonPrinter writes each response as one line, for pipes.
type jsonPrinter struct{ w io.Writer }

func (j jsonPrinter) response(d document) error { return j.write(d, "") }
func (j jsonPrinter) final(d document) error    { return j.write(d, "  ") }

func (j jsonPrinter) write(d document, indent string) error {
	var text bytes.Buffer
	if err := encodeJSON(&text, d, indent); err != nil {
		return err
	}
	_, err := j.w.Write(visible.JSON(text.Bytes()))
	return err
}

func encodeJSON(w io.Writer, d document, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(d)
}

// yamlPrinter writes each response as one YAML document.
type yamlPrinter struct{ w io.Writer }

func (y yamlPrinter) response(d document) error {
	if _, err := io.WriteString(y.w, "---\n"); err != nil {
		return err
	}
	return y.final(d)
}

func (y yamlPrinter) final(d document) error {
	var text bytes.Buffer
	if err := encodeJSON(&text, d, ""); err != nil {
		return err
	}
	return writeYAML(y.w, text.Bytes())
}

// writeYAML prints JSON as YAML, with its order of fields and its form of numbers. The tree is made
// here, since the YAML parser cannot read all JSON: it refuses surrogate pairs, long keys and some
// control characters.
func writeYAML(w io.Writer, text []byte) error {
	if !json.Valid(text) { // which bounds how deeply it is nested
		return errors.New("turning JSON into YAML: it is not valid JSON")
	}
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.UseNumber()
	out, err := yaml.Dump(yamlNode(decode))
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = w.Write(visible.YAML(out))
	return err
}

// yamlNode makes a node of the next value of valid JSON.
func yamlNode(decode *json.Decoder) *yaml.Node {
	token, _ := decode.Token() // it is valid
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for decode.More() {
			n.Content = append(n.Content, yamlNode(decode))
		}
		_, _ = decode.Token() // the closing bracket
		return n
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if visible.Any(v) {
			n.Style = yaml.DoubleQuotedStyle // only there it can be shown
		}
		return n
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}
}
