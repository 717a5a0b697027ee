package admin

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream"
)

// TestFollowLasts: who follows is not cut off by the times that other requests may take, and ends
// with the request. One more than there may be is refused.
func TestFollowLasts(t *testing.T) {
	w := newWorld(t)
	stopped := make(chan bool, 1)
	full := false
	w.cfg.Follow = func(node string) (*downstream.Follower, func(), error) {
		if full || node != "a" {
			return nil, nil, errors.New("too many")
		}
		return &downstream.Follower{}, func() { stopped <- true }, nil
	}
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(a.Handler())
	server.Config.ReadTimeout, server.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL + "/explain/follow?node=a")
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `data: {"at":`) || !strings.Contains(line, `"event":"following","streams":0`) {
		t.Errorf("it begins with %q, %v", line, err)
	}
	select {
	case <-stopped:
		t.Error("it is cut off")
	case <-time.After(300 * time.Millisecond):
	}
	_ = resp.Body.Close()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Error("it goes on without anybody")
	}
	full = true
	want(t, w.get("/explain/follow?node=a"), http.StatusTooManyRequests)
	want(t, w.get("/explain/follow?node=a&type=cds"), http.StatusBadRequest, `no parameter "type"`)
}
