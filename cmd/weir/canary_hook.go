package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/cmd/weir/config"
)

// canary.check: a Prometheus server, or any other server, is asked how the canaries do. It is asked
// by this process alone, on a connection of its own each time, through no proxy. Redirects are not
// followed: headers and tokens are for the server that the configuration names.

const (
	// maxAnswer bounds what is read of an answer, in bytes, and maxReason what is kept of a reason.
	maxAnswer = 1 << 20
	maxReason = 200
)

// question is what a server is asked.
type question struct {
	url       string
	headers   map[string]string
	tokenFile string
	tls       config.CheckTLS
	// judge reads an answer.
	judge func(code int, body []byte) (objects bool, why string, err error)
}

// checkOf is the check of an origin's canaries; nil: there is none.
func checkOf(c *config.CanaryCheck) *canary.Check {
	if c == nil {
		return nil
	}
	out, q := &canary.Check{}, question{}
	switch m, h := c.Prometheus, c.HTTP; {
	case m != nil:
		out.Interval = m.Interval
		q = question{
			url:     strings.TrimSuffix(m.URL, "/") + "/api/v1/query?" + url.Values{"query": {m.Query}}.Encode(),
			headers: m.Headers, tokenFile: m.TokenFile, tls: m.TLS,
			judge: func(code int, body []byte) (bool, string, error) { return judgeQuery(code, body, m.Threshold) },
		}
	default:
		out.Interval = h.Interval
		q = question{url: h.URL, headers: h.Headers, tokenFile: h.TokenFile, tls: h.TLS, judge: judgeStatus}
	}
	out.Ask = q.ask
	return out
}

// ask asks, and returns whether there is an objection, and why. An error says that there is no
// answer, and names the server without what may be secret in its URL.
func (q *question) ask(ctx context.Context) (objects bool, why string, err error) {
	code, body, err := q.get(ctx)
	if err == nil {
		objects, why, err = q.judge(code, body)
	}
	if err != nil {
		return false, "", fmt.Errorf("canary.check: %s: %w", q.host(), err)
	}
	return objects, why, nil
}

func (q *question) host() string {
	u, err := url.Parse(q.url)
	if err != nil {
		return "the URL cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

// get makes the request.
func (q *question) get(ctx context.Context) (code int, body []byte, err error) {
	transport := &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true}
	if transport.TLSClientConfig, err = clientTLS(&q.tls); err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url, http.NoBody)
	if err != nil {
		return 0, nil, errors.New("the URL cannot be used")
	}
	for name, value := range q.headers {
		req.Header.Set(name, value)
	}
	if q.tokenFile != "" {
		token, err := os.ReadFile(q.tokenFile)
		if err != nil {
			return 0, nil, fmt.Errorf("token_file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // the outer error has the whole URL
			err = inner
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("its answer cannot be read: %w", err)
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("its answer is larger than %d bytes", maxAnswer)
	}
	return resp.StatusCode, body, nil
}

// clientTLS reads the files for a connection.
func clientTLS(c *config.CheckTLS) (*tls.Config, error) {
	out := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		if out.RootCAs = x509.NewCertPool(); !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s has no certificate", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// judgeStatus reads an answer by its status: the first line of what is not 2xx is the objection.
func judgeStatus(code int, body []byte) (objects bool, why string, err error) {
	line := firstLine(body)
	if code >= 200 && code <= 299 {
		return false, line, nil
	}
	return true, cmp.Or(line, fmt.Sprintf("%d %s", code, http.StatusText(code))), nil
}

// firstLine is the first line of a text, cut, and without what a terminal would obey.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	line = strings.ToValidUTF8(line[:min(len(line), maxReason)], "")
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}

// queryAnswer is an answer of Prometheus' HTTP API to an instant query.
type queryAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// point is a time, and a value in decimal.
type point [2]any

// judgeQuery reads an answer to a query. The largest of its values must not be above the threshold.
func judgeQuery(code int, body []byte, threshold float64) (objects bool, why string, err error) {
	var a queryAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return false, "", fmt.Errorf("%d %s, and its answer is not that of Prometheus: %s", code, http.StatusText(code), firstLine(body))
	}
	if a.Status != "success" {
		return false, "", fmt.Errorf("the query fails: %s", firstLine([]byte(a.Error)))
	}
	values, err := a.values()
	if err != nil {
		return false, "", err
	}
	if len(values) == 0 {
		return false, "", errors.New("the query has no value")
	}
	most := values[0]
	for _, v := range values {
		if math.IsNaN(v) {
			return false, "", errors.New("a value of the query is NaN")
		}
		most = max(most, v)
	}
	text := strconv.FormatFloat(most, 'g', 6, 64)
	if most > threshold {
		return true, fmt.Sprintf("the query's value %s is above %s", text, strconv.FormatFloat(threshold, 'g', 6, 64)), nil
	}
	return false, "the query's value is " + text, nil
}

// values are those of a vector or a scalar.
func (a *queryAnswer) values() (values []float64, err error) {
	var points []point
	switch a.Data.ResultType {
	case "vector":
		var series []struct {
			Value point `json:"value"`
		}
		err = json.Unmarshal(a.Data.Result, &series)
		for i := range series {
			points = append(points, series[i].Value)
		}
	case "scalar":
		points = make([]point, 1)
		err = json.Unmarshal(a.Data.Result, &points[0])
	default:
		return nil, fmt.Errorf("the query's result is a %s; it has to be a vector or a scalar", firstLine([]byte(a.Data.ResultType)))
	}
	if err != nil {
		return nil, fmt.Errorf("the query's result is not understood: %w", err)
	}
	for _, p := range points {
		text, _ := p[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("a value of the query is not understood: %q", firstLine([]byte(text)))
		}
		values = append(values, v)
	}
	return values, nil
}
