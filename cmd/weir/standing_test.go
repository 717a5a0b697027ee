package main

import (
	"errors"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/seed"
)

// TestPageOfReplica: a replica has a page where others can reach its admin port, at the address at
// which it answers siblings.
func TestPageOfReplica(t *testing.T) {
	for _, row := range []struct {
		address string
		said    seed.Standing
		page    string
	}{
		{"10.0.0.2:19082", seed.Standing{AdminPort: 19080}, "http://10.0.0.2:19080/"},
		{"[fd00::2]:19082", seed.Standing{AdminPort: 19080, AdminTLS: true}, "https://[fd00::2]:19080/"},
		{"weir-1.weir:19082", seed.Standing{AdminPort: 19080, AdminTLS: true}, "https://weir-1.weir:19080/"},
		{"10.0.0.2:19082", seed.Standing{AdminPort: 19080, AdminLocal: true}, ""},
		{"127.0.0.1:19082", seed.Standing{AdminPort: 19080, AdminLocal: true}, "http://127.0.0.1:19080/"},
		{"10.0.0.2:19082", seed.Standing{}, ""}, // a Unix socket
	} {
		if got := replicaOf(seed.Stands{Address: row.address, Standing: row.said}); got.Page != row.page || got.Address != row.address {
			t.Errorf("%s: the page is %q, want %q", row.address, got.Page, row.page)
		}
	}
	if got := replicaOf(seed.Stands{Address: "a:1", Err: errors.New("connection refused")}); got.State != admin.Bad || got.Error != "connection refused" || got.Page != "" {
		t.Errorf("one that does not answer is %+v", got)
	}
}
