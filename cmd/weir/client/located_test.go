package client

import (
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

// when are the constraints that env has a value; nil for "".
func when(env string) *discoveryv3.DynamicParameterConstraints {
	if env == "" {
		return nil
	}
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: "env", ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: env},
		},
	}}
}

func variant(name, env string) *discoveryv3.ResourceName {
	return &discoveryv3.ResourceName{Name: name, DynamicParameterConstraints: when(env)}
}

// said are locators in short.
func said(locators []*discoveryv3.ResourceLocator) (all []string) {
	for _, l := range locators {
		all = append(all, l.GetName()+"{env="+l.GetDynamicParameters()["env"]+"}")
	}
	return all
}

// With parameters every name goes as a locator, and none as a plain name.
func TestLocators(t *testing.T) {
	for _, row := range []struct{ names, want []string }{
		{[]string{"a", "b"}, []string{"a{env=prod}", "b{env=prod}"}},
		{nil, []string{"*{env=prod}"}},
	} {
		sub := Subscription{TypeURL: clusterURL, Names: row.names, Params: map[string]string{"env": "prod"}}
		done := make(chan struct{}, 2)
		address := clienttest.Serve(t, &clienttest.Server{
			Delta: func(s clienttest.DeltaStream) error {
				defer func() { done <- struct{}{} }()
				m, err := s.Recv()
				if err != nil {
					return err
				}
				if got := said(m.GetResourceLocatorsSubscribe()); !slices.Equal(got, row.want) || m.GetResourceNamesSubscribe() != nil {
					t.Errorf("delta: %v", m)
				}
				return s.Send(deltaResponse("1", "1"))
			},
			SotW: func(s clienttest.SotWStream) error {
				defer func() { done <- struct{}{} }()
				for range 2 { // the ACK repeats them
					m, err := s.Recv()
					if err != nil {
						return err
					}
					if got := said(m.GetResourceLocators()); !slices.Equal(got, row.want) || m.GetResourceNames() != nil {
						t.Errorf("sotw: %v", m)
					}
					wrapped := clienttest.Any(t, &discoveryv3.Resource{ResourceName: variant("a", "prod"), Resource: cluster(t, "a")})
					if err := s.Send(&discoveryv3.DiscoveryResponse{TypeUrl: clusterURL, Nonce: "1", Resources: []*anypb.Any{wrapped}}); err != nil {
						return err
					}
				}
				return nil
			},
		}, loopback)
		for _, dialect := range []Dialect{Delta, SotW} {
			c, ctx := dial(t, Config{Address: address, Dialect: dialect})
			for r, err := range c.Watch(ctx, sub) {
				if err != nil {
					break // the server has seen enough
				}
				if dialect == SotW && (len(r.Set) != 1 || !r.Set[0].Located || r.Set[0].Constraints.GetConstraint().GetValue() != "prod") {
					t.Errorf("the wrapped variant was read as %+v", r.Set)
				}
			}
			<-done
		}
	}
}

// A variant that another replaces is no removal of the name, nor is one that was not ours.
func TestReplacedVariants(t *testing.T) {
	response := func(nonce string, set, removed []*discoveryv3.ResourceName) *discoveryv3.DeltaDiscoveryResponse {
		r := deltaResponse(nonce, nonce)
		for _, n := range set {
			r.Resources = append(r.Resources, &discoveryv3.Resource{ResourceName: n, Version: "1", Resource: cluster(t, n.GetName())})
		}
		r.RemovedResourceNames = removed
		return r
	}
	type list = []*discoveryv3.ResourceName
	address := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		for _, r := range []*discoveryv3.DeltaDiscoveryResponse{
			response("1", list{variant("a", "prod")}, nil),
			response("2", list{variant("a", "all")}, list{variant("a", "prod")}),
			response("3", nil, list{variant("a", "prod")}),
			response("4", nil, list{variant("a", "all")}),
			response("5", nil, list{variant("b", "")}),
		} {
			if err := s.Send(r); err != nil {
				return err
			}
		}
		for {
			if _, err := s.Recv(); err != nil {
				return nil
			}
		}
	}}, loopback)
	c, ctx := dial(t, Config{Address: address})
	wantResponses(ctx, t, c, Subscription{TypeURL: clusterURL, Names: []string{"a", "b"}, Params: map[string]string{"env": "prod"}},
		"1/1/ set[a@1] removed[] errors[]",
		"2/2/ set[a@1] removed[] errors[]",
		"3/3/ set[] removed[] errors[]",
		"4/4/ set[] removed[a] errors[]",
		"5/5/ set[] removed[b] errors[]")
}
