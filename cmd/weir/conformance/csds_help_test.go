package conformance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

func csdsClient(t *testing.T, p *weirtest.Process) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	return statusv3.NewClientStatusDiscoveryServiceClient(weirtest.Connect(t, p.Admin))
}

// statusRequest is a request, which is written as JSON.
func statusRequest(t *testing.T, text string) *statusv3.ClientStatusRequest {
	t.Helper()
	req := &statusv3.ClientStatusRequest{}
	if err := protojson.Unmarshal([]byte(text), req); err != nil {
		t.Fatal(err)
	}
	return req
}

// statusOf asks a weir once.
func statusOf(t *testing.T, p *weirtest.Process, text string) *statusv3.ClientStatusResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weirtest.Patience)
	defer cancel()
	resp, err := csdsClient(t, p).FetchClientStatus(ctx, statusRequest(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, c := range resp.Config {
		if len(c.XdsConfig) > 0 { //nolint:staticcheck // that it is not produced is what is looked at (CSDS-7)
			t.Errorf("the deprecated list is there: %v", c)
		}
	}
	return inOrder(resp)
}

// inOrder sorts what has no order.
func inOrder(resp *statusv3.ClientStatusResponse) *statusv3.ClientStatusResponse {
	slices.SortStableFunc(resp.Config, func(a, b *statusv3.ClientConfig) int {
		return cmp.Or(strings.Compare(a.ClientScope, b.ClientScope), strings.Compare(a.Node.GetId(), b.Node.GetId()))
	})
	for _, c := range resp.Config {
		slices.SortFunc(c.GenericXdsConfigs, func(a, b *statusv3.ClientConfig_GenericXdsConfig) int {
			return cmp.Or(strings.Compare(a.TypeUrl, b.TypeUrl), strings.Compare(a.Name, b.Name))
		})
	}
	return resp
}

// statusByJSON asks by the REST path.
func statusByJSON(t *testing.T, p *weirtest.Process, text string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: weirtest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Post("http://"+p.Admin+"/v3/discovery:client_status", "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// serverView is of an answer what clients were sent, as NODE TYPE NAME: STATUS.
func serverView(resp *statusv3.ClientStatusResponse) map[string]string {
	all := map[string]string{}
	for _, c := range resp.Config {
		for _, it := range c.GenericXdsConfigs {
			if c.ClientScope == "" {
				all[fmt.Sprint(c.Node.GetId(), " ", typeNames[it.TypeUrl], " ", it.Name)] = it.ConfigStatus.String()
			}
		}
	}
	return all
}

var typeNames = map[string]string{cds: "cds", eds: "eds", lds: "lds", rds: "rds", sds: "sds"}

// awaitView waits until clients stand as said, by the first line of each: NODE TYPE NAME: STATUS.
func awaitView(t *testing.T, p *weirtest.Process, sentence string, want map[string]string) *statusv3.ClientStatusResponse {
	t.Helper()
	var resp *statusv3.ClientStatusResponse
	if !weirtest.Until(weirtest.Patience, func() bool {
		resp = statusOf(t, p, `{}`)
		return maps.Equal(serverView(resp), want)
	}) {
		t.Fatalf("%s: %v, want %v", sentence, serverView(resp), want)
	}
	return resp
}

// item is one of a ClientConfig; nil: it has none of the name.
func itemOf(c *statusv3.ClientConfig, typeURL, name string) *statusv3.ClientConfig_GenericXdsConfig {
	for _, it := range c.GetGenericXdsConfigs() {
		if it.TypeUrl == typeURL && it.Name == name {
			return it
		}
	}
	return nil
}
