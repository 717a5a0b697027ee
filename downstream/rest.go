package downstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// restPath says what a URL path serves: a service, under its v3 or its v2 name.
type restPath struct {
	service *xds.Service
	v2      bool
}

// restPaths maps URL paths to what they serve (TRANS-2). With v2 it includes the v2 paths (V2-1).
func restPaths(v2 bool) map[string]restPath {
	all := map[string]restPath{}
	add := func(services []xds.Service, v2 bool) {
		for i := range services {
			if path := services[i].REST; path != "" {
				all[path] = restPath{&services[i], v2}
			}
		}
	}
	add(xds.Services, false)
	if v2 {
		add(xds.ServicesV2, true)
	}
	return all
}

// connectionKey is the context key of a request's connection.
type connectionKey struct{}

// newREST makes the HTTP server of a listener that serves REST-JSON.
func (s *Server) newREST(ln *listener, lc *ListenerConfig, l Limits, t Timing) *http.Server {
	var speaks http.Protocols
	speaks.SetHTTP1(true)
	speaks.SetHTTP2(true)
	speaks.SetUnencryptedHTTP2(true)
	idle := cmp.Or(l.ConnectionIdle, -1) // net/http's value for "no timeout"
	return &http.Server{
		Handler:           &restHandler{s, ln, restPaths(lc.V2)},
		Protocols:         &speaks,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: min(l.StreamsPerConnection, 1<<20)},
		MaxHeaderBytes:    headerList,
		ReadHeaderTimeout: handshake,
		ReadTimeout:       t.FirstRequest,
		WriteTimeout:      t.FirstRequest + t.RESTWait + t.RESTHold + t.SendStall,
		IdleTimeout:       idle,
		ErrorLog:          log.New(io.Discard, "", 0), // failures are counted, not logged
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c.(*restConn).client)
		},
	}
}

// restHandler serves the REST-JSON requests of one listener.
type restHandler struct {
	server   *Server
	listener *listener
	paths    map[string]restPath
}

// ServeHTTP implements http.Handler.
func (h *restHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	from := conn.caller()
	if r.ProtoMajor == 1 { // with HTTP/2 the frame was counted already
		conn.note(incoming{calls: 1}, nil)
	}
	if conn.churn.over() {
		h.refuse(w, errCalmDown)
		return
	}
	h.server.paceHeaders(conn, from, metadata.MD(r.Header), len(r.RequestURI)+len(r.Host))
	at, served := h.paths[r.URL.Path]
	switch {
	case !served:
		http.Error(w, "there is no such path: discovery is at /v3/discovery:clusters and its siblings", http.StatusNotFound)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "discovery takes POST alone", http.StatusMethodNotAllowed)
		return
	}
	body := &countedBody{ReadCloser: r.Body}
	r.Body = body
	defer body.applied(conn, r.ProtoMajor)
	if !h.listener.requests.enter() {
		h.refuse(w, errDraining)
		return
	}
	defer h.listener.requests.all.Done()
	ctx, p := h.server.newPoll(r.Context(), h.listener, at.service, at.v2, from, conn, conn.raw.RemoteAddr())
	via := node.ParseVia(r.Header.Values(node.ViaKey))
	err := p.serve(ctx, via,
		func() error { return h.read(ctx, w, r, p) },
		func(answer polled) error { return h.write(w, r, p, answer) })
	if err == nil || errors.Is(err, errUnresolved) { // in the second case it waited for an answer, too
		conn.churn.answer()
	}
	if err != nil {
		h.refuse(w, err)
	}
}

// read reads and decodes the request.
func (h *restHandler) read(ctx context.Context, w http.ResponseWriter, r *http.Request, p *poll) error {
	text, err := readBody(ctx, w, r, p.in)
	if err != nil {
		large := (*http.MaxBytesError)(nil)
		switch {
		case errors.As(err, &large), errors.Is(err, errTooLarge):
			return p.in.set.over("request_bytes", p.in.most(), "the request has more bytes")
		case ctx.Err() != nil:
			return p.reason(ctx)
		}
		return status.Errorf(codes.InvalidArgument, "the request cannot be read: %v", err)
	}
	h.server.cfg.Metrics.Message(metrics.FromClient, len(text))
	return h.decode(ctx, text, p)
}

// decode decodes the body, once there is memory for what it becomes. By then other long bodies may
// be inflated.
func (h *restHandler) decode(ctx context.Context, text []byte, p *poll) error {
	defer p.in.leaveTurn()
	memory, err := p.in.set.boundJSON(text)
	if err != nil {
		return err
	}
	intake := p.in.intake
	p.in.waits.begin(metrics.WaitIntake, time.Now(), time.Time{})
	parts, err := intake.enter(ctx, p.in.from, max(memory, len(text)))
	p.in.waits.end()
	if err != nil {
		return p.reason(ctx)
	}
	p.in.leaveTurn()
	p.in.intake = nil // the request is complete
	encoded, err := parseJSON(text, h.server.cfg.Resolver)
	if err == nil {
		p.in.read(mem.BufferSlice{mem.SliceBuffer(encoded)})
	} else {
		p.in.err = err
	}
	p.in.intake, p.in.parts = intake, parts
	if err = p.stream.refused(p.in); err != nil {
		p.done()
	}
	return err
}

// write writes the answer.
func (h *restHandler) write(w http.ResponseWriter, r *http.Request, p *poll, answer polled) error {
	if answer.unchanged {
		w.WriteHeader(http.StatusNotModified)
		p.sent(answer, 0)
		return nil
	}
	d, err := h.server.renderer.render(answer.response.out, !xds.IsSecret(p.stream.session.only))
	if undescribed := (*undescribedError)(nil); errors.As(err, &undescribed) {
		answer.version, err = p.leavesOut(w, answer, undescribed)
	}
	if err != nil {
		return err
	}
	if answer.version == string(p.in.version) {
		w.WriteHeader(http.StatusNotModified)
		p.sent(polled{version: answer.version, unchanged: true, standIn: answer.standIn}, 0)
		return nil
	}
	text, header := d.plain, w.Header()
	if compression := p.stream.session.settings().compression; compression != "" {
		header.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Values("Accept-Encoding")) {
			text = d.gzipped()
			header.Set("Content-Encoding", compression)
		}
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	p.sent(answer, len(text))
	_, _ = w.Write(text) // the client has gone
	return nil
}

// takesGzip reports whether Accept-Encoding lists gzip with a weight other than 0.
func takesGzip(accepts []string) bool {
	for _, one := range strings.Split(strings.Join(accepts, ","), ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.TrimSpace(name) == "gzip" {
			q := strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return strings.Trim(q, "0.") != "" || weight == ""
		}
	}
	return false
}

// refuse answers with an error: status code, reason and, if it helps, Retry-After.
func (h *restHandler) refuse(w http.ResponseWriter, err error) {
	code := httpStatus(err)
	switch {
	case code == http.StatusServiceUnavailable && !errors.Is(err, errUnresolved), // another replica may have room
		errors.Is(err, errCalmDown):
		w.Header().Set("Connection", "close")
	}
	http.Error(w, status.Convert(err).Message(), code)
}

// httpStatus maps an error to an HTTP status.
func httpStatus(err error) int {
	limit := (*limitError)(nil)
	if errors.As(err, &limit) {
		switch {
		case limit.elsewhere:
			return http.StatusServiceUnavailable
		case limit.key == "request_bytes":
			return http.StatusRequestEntityTooLarge
		}
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// serveREST serves the listener's port until the server is stopped.
func (ln *listener) serveREST() error {
	if err := ln.rest.Serve(ln.polled); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// openRequests counts the requests in flight. http.Server.Close does not wait for handlers.
type openRequests struct {
	mu     sync.Mutex // guards closed; no request is added once closed is set
	closed bool
	all    sync.WaitGroup
}

// enter counts a request. It returns false if no more are admitted. It locks the count.
func (o *openRequests) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.all.Add(1)
	}
	return !o.closed
}

// end admits no more requests and waits for those in flight. Their connections are closed, so their
// contexts end. It locks the count.
func (o *openRequests) end() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.all.Wait()
}
