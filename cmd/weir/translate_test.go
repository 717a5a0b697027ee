package main

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// TestAbsenceAndErrorsAreTranslated: absence_timer, on_data_error and ttl_unsupported reach the
// table (ABS-6, ABS-8, RELAY-51).
func TestAbsenceAndErrorsAreTranslated(t *testing.T) {
	for _, row := range []struct {
		keys                      string
		transient, drop, withhold bool
	}{
		{"", false, false, false},
		{"absence_timer: absence, on_data_error: keep, ttl_unsupported: serve, ", false, false, false},
		{"absence_timer: transient, ", true, false, false},
		{"on_data_error: drop, ", false, true, false},
		{"ttl_unsupported: withhold, ", false, false, true},
	} {
		cfg, err := config.Parse("test", []byte("origins: [{"+row.keys+"name: a, grpc: {addresses: ['a:1']}}]\n"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		o := tableConfig(cfg).Origins[0]
		if o.AbsenceTransient != row.transient || o.DropOnDataError != row.drop || o.WithholdTTL != row.withhold {
			t.Errorf("%q became %v, %v, %v", row.keys, o.AbsenceTransient, o.DropOnDataError, o.WithholdTTL)
		}
	}
}

// TestGlobIsTranslated: glob reaches the table (COLL-5).
func TestGlobIsTranslated(t *testing.T) {
	for keys, want := range map[string]bool{"": false, "glob: one_level, ": false, "glob: recursive, ": true} {
		cfg, err := config.Parse("test", []byte("origins: [{"+keys+"name: a, grpc: {addresses: ['a:1']}}]\n"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		if got := tableConfig(cfg).Origins[0].RecursiveGlobs; got != want {
			t.Errorf("%q became %v", keys, got)
		}
	}
}

// TestVersionKeysAreTranslated: version_mode and hash reach the table (VER-5, VER-6).
func TestVersionKeysAreTranslated(t *testing.T) {
	for keys, want := range map[string][2]bool{
		"": {}, "version_mode: content, hash: bytes, ": {}, "version_mode: origin, ": {true, false}, "hash: canonical, ": {false, true},
	} {
		cfg, err := config.Parse("test", []byte("origins: [{"+keys+"name: a, grpc: {addresses: ['a:1']}}]\n"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		o := tableConfig(cfg).Origins[0]
		if got := [2]bool{o.OriginVersions, o.CanonicalHash}; got != want {
			t.Errorf("%q became %v", keys, got)
		}
	}
}

// TestParametersAreTranslated: the keys of dynamic parameters reach the table and the clients' side
// (RELAY-64, RELAY-73, DYN-17, DYN-18).
func TestParametersAreTranslated(t *testing.T) {
	for keys, want := range map[string]relay.OriginConfig{
		"":            {},
		"tp2: true, ": {TP2: true},
		"tp2: true, dynamic_parameters: {from_node: {env: metadata.env}}, ": {
			TP2: true, FromNode: map[string]string{"env": "metadata.env"},
		},
		"dynamic_parameters: {otherwise: ignored}, ": {IgnoreParams: true},
	} {
		for _, kind := range []string{"grpc: {addresses: ['a:1']}", "files: {path: x}"} {
			cfg, err := config.Parse("test", []byte("origins: [{"+keys+"name: a, "+kind+"}]\n"), os.LookupEnv)
			if err != nil {
				t.Fatal(err)
			}
			o := tableConfig(cfg).Origins[0]
			got := relay.OriginConfig{TP2: o.TP2, FromNode: o.FromNode, IgnoreParams: o.IgnoreParams}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q of %s became %+v", keys, kind, got)
			}
		}
	}
	for text, want := range map[string][2]int{
		"": {64, 1000}, "limits: {parameter_sets_per_stream: 3, parameter_sets_per_group: 4}\n": {3, 4},
		"limits: {parameter_sets_per_stream: 0, parameter_sets_per_group: 0}\n": {-1, 0},
	} {
		cfg, err := config.Parse("test", []byte("origins: [{name: a, files: {path: x}}]\n"+text), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		s, err := serverConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{s.Limits.ParameterSets, tableConfig(cfg).MaxParameterSets}; got != want {
			t.Errorf("%q became %v, want %v", text, got, want)
		}
	}
}

// TestUrgentIsTranslated: which types pass although a group is held reaches the table. None is not
// the same as the default.
func TestUrgentIsTranslated(t *testing.T) {
	for keys, want := range map[string][]string{
		"":                               {xds.EndpointType, xds.SecretType},
		"canary: {urgent: []}, ":         {},
		"canary: {urgent: [eds, rds]}, ": {xds.EndpointType, xds.RouteType},
	} {
		cfg, err := config.Parse("test", []byte("origins: [{"+keys+"name: a, grpc: {addresses: ['a:1']}}]\n"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		if got := tableConfig(cfg).Origins[0].Urgent; got == nil || !slices.Equal(got, want) {
			t.Errorf("%q became %q", keys, got)
		}
	}
}
