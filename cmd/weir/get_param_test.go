package main

import (
	"encoding/json"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

// startVariants is a control plane with a variant of cluster a for each env, whoever asks, and
// nothing of b.
func startVariants(t *testing.T) string {
	p := &plane{t: t}
	resource := func(env string) *discoveryv3.Resource {
		c := &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
			Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
				Key: "env", ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: env},
			},
		}}
		name := &discoveryv3.ResourceName{Name: "a", DynamicParameterConstraints: c}
		return &discoveryv3.Resource{ResourceName: name, Version: "r1", Resource: p.clusters()["a"]}
	}
	return clienttest.Serve(t, &clienttest.Server{
		Delta: func(s clienttest.DeltaStream) error {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: m.GetTypeUrl(), Nonce: "1"}
			for _, l := range m.GetResourceLocatorsSubscribe() {
				if l.GetName() == "b" {
					r.RemovedResourceNames = append(r.RemovedResourceNames, &discoveryv3.ResourceName{Name: "b"})
				} else {
					r.Resources = append(r.Resources, resource(l.GetDynamicParameters()["env"]))
				}
			}
			if err := s.Send(r); err != nil {
				return err
			}
			return drain(s)
		},
		SotW: func(s clienttest.SotWStream) error {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			r := &discoveryv3.DiscoveryResponse{TypeUrl: m.GetTypeUrl(), Nonce: "1", VersionInfo: "v1"}
			for _, l := range m.GetResourceLocators() {
				r.Resources = append(r.Resources, clienttest.Any(t, resource(l.GetDynamicParameters()["env"])))
			}
			if err := s.Send(r); err != nil {
				return err
			}
			return drain(s)
		},
	}, loopback)
}

// With --param a resource is asked by locator, and shown with its constraints.
func TestGetParam(t *testing.T) {
	address := startVariants(t)
	for _, dialect := range []string{"delta", "sotw"} {
		code, stdout, stderr := weir(t, "get", "cds", "a", "--param", "env=prod", "--param", "x=1", "--from", address, "--dialect", dialect)
		want := "NAME  VERSION  TTL  BYTES  CONTROL PLANE  CONSTRAINTS\n" +
			"a     r1       -    11     -              \"env\"=\"prod\"\n"
		if code != exitOK || stderr != "" || stdout != want {
			t.Errorf("%s: got %d, %q and\n%swant\n%s", dialect, code, stderr, stdout, want)
		}
	}
	_, stdout, _ := weir(t, "get", "cds", "--param", "env=dev", "--from", address, "-o", "json")
	var d struct {
		Resources []struct {
			Constraints struct {
				Constraint struct{ Key, Value string }
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Resources) != 1 || d.Resources[0].Constraints.Constraint.Value != "dev" {
		t.Errorf("%v, %+v in\n%s", err, d, stdout)
	}
	if code, _, stderr := weir(t, "get", "cds", "b", "--param", "env=prod", "--from", address); code != exitFailed || stderr != "b: does not exist\n" {
		t.Errorf("what does not exist: got %d, %q", code, stderr)
	}
	if code, _, stderr := weir(t, "get", "cds", "a", "--param", "env", "--from", address); code != exitUsage || !strings.Contains(stderr, "--param \"env\": write KEY=VALUE") {
		t.Errorf("a parameter without a value: got %d, %q", code, stderr)
	}
}

// A server that does not know locators takes the request for one of everything: what it sends is
// not what was asked for.
func TestGetParamNotUnderstood(t *testing.T) {
	_, address := startPlane(t)
	for _, dialect := range []string{"delta", "sotw"} {
		code, _, stderr := weir(t, "get", "cds", "a", "--param", "env=prod", "--from", address, "--dialect", dialect)
		if code != exitFailed || !strings.HasPrefix(stderr, address+": does not understand parameters") {
			t.Errorf("%s: got %d, %q", dialect, code, stderr)
		}
	}
}
