package main

import (
	"os"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// TestAbsenceAndErrorsAreTranslated: absence_timer, on_data_error and ttl_unsupported reach the table (ABS-6, ABS-8, RELAY-51).
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
