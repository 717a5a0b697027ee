package world

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls a plane's control endpoint.
type Client struct {
	Addr string // host:port
	HTTP *http.Client
}

// Change changes the next count resources, and returns the names of the first 100 of them.
func (c *Client) Change(ctx context.Context, count int) (Stamp, []string, error) {
	var out Changed
	if err := c.ask(ctx, http.MethodPost, fmt.Sprintf("/change?count=%d", count), &out); err != nil {
		return 0, nil, err
	}
	s, ok := ParseDigits(out.Stamp)
	if !ok {
		return 0, nil, fmt.Errorf("control %s: %q is no stamp", c.Addr, out.Stamp)
	}
	return s, out.Names, nil
}

// Repeat makes the plane send the last change once more, as it was.
func (c *Client) Repeat(ctx context.Context) error {
	return c.ask(ctx, http.MethodPost, "/repeat", &Changed{})
}

// Churn changes rate resources a second, one at a time, and returns after d.
func (c *Client) Churn(ctx context.Context, rate int, d time.Duration) (Churned, error) {
	var out Churned
	query := url.Values{"rate": {fmt.Sprint(rate)}, "for": {d.String()}}
	err := c.ask(ctx, http.MethodPost, "/churn?"+query.Encode(), &out)
	return out, err
}

// Counts returns what the plane's clients have cost it.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	var out Counts
	err := c.ask(ctx, http.MethodGet, "/counts", &out)
	return out, err
}

func (c *Client) ask(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Addr+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("control %s: %s: %s", c.Addr, resp.Status, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	return nil
}
