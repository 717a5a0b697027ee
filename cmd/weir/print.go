package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client"
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

func newPrinter(format string, w io.Writer) (printer, error) {
	switch format {
	case "table":
		return table{w}, nil
	case "json":
		return jsonPrinter{w}, nil
	case "yaml":
		return yamlPrinter{w}, nil
	}
	return nil, usageError{fmt.Errorf("--output %q is none of table, yaml, json", format)}
}

// table is for people, and for awk.
type table struct{ w io.Writer }

func (t table) response(d document) error {
	if _, err := fmt.Fprintf(t.w, "# version %q nonce %q control plane %q\n", d.Version, d.Nonce, d.ControlPlane); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its first error for Flush.
	for _, r := range d.Resources {
		_, _ = fmt.Fprintf(tw, "set\t%s\t%s\t%s\t%d", visible.Text(r.Name), dash(r.Version), dash(r.TTL), r.bytes)
		if r.located {
			_, _ = fmt.Fprintf(tw, "\t%s", dash(r.when))
		}
		_, _ = fmt.Fprintln(tw)
	}
	writeMissing(tw, d)
	return tw.Flush()
}

func (t table) final(d document) error {
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	located := slices.ContainsFunc(d.Resources, func(r printed) bool { return r.located })
	line := func(name, version, ttl, bytes, plane, when string) {
		_, _ = fmt.Fprint(tw, name, "\t", version, "\t", ttl, "\t", bytes, "\t", plane)
		if located {
			_, _ = fmt.Fprint(tw, "\t", when)
		}
		_, _ = fmt.Fprintln(tw)
	}
	if len(d.Resources) > 0 {
		line("NAME", "VERSION", "TTL", "BYTES", "CONTROL PLANE", "CONSTRAINTS")
	}
	for _, r := range d.Resources {
		line(visible.Text(r.Name), dash(r.Version), dash(r.TTL), strconv.Itoa(r.bytes), dash(d.ControlPlane), dash(r.when))
	}
	return tw.Flush()
}

func writeMissing(w io.Writer, d document) {
	for _, name := range d.Removed {
		_, _ = fmt.Fprintf(w, "removed\t%s\n", visible.Text(name))
	}
	for _, e := range d.Errors {
		_, _ = fmt.Fprintf(w, "error\t%s\t%s\t%s\n", visible.Text(e.Name), visible.Text(e.Code), visible.Text(e.Message))
	}
}

// dash shows a text in a column, and fills an empty one.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return visible.Text(s)
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
