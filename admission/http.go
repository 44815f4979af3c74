package admission

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// longestWait bounds ?wait= of an order.
const longestWait = 30 * time.Second

// Identify tells which buyer sends a request. Its errors are problems.
type Identify func(*http.Request) (string, error)

// HTTPConfig of the buyers' side.
type HTTPConfig struct {
	Identify Identify      // needed
	Timeout  time.Duration // of a request that places an order; needed
	Funnel   *Funnel       // nil: everybody gets to the gate
	Version  string        // shown in the OpenAPI document
	Logger   *slog.Logger  // default: slog.Default()

	PaymentSecrets [][]byte // keys of whoever takes the money, all believed; none: no payment is taken in
}

// Handler serves the buyers' routes of a service, and the OpenAPI document.
type Handler struct {
	service *Service
	config  HTTPConfig
	mux     *http.ServeMux
	streams atomic.Int64 // of order events that are open
}

// NewHandler returns the buyers' routes.
func NewHandler(s *Service, c HTTPConfig) *Handler {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	h := &Handler{service: s, config: c, mux: http.NewServeMux()}
	Unknown(h.mux)
	api := NewAPI(h.mux, "Seckill", c.Version)
	h.describePlace(api)
	h.registerReads(api)
	h.registerCancel(api)
	h.describePayments(api)
	h.describeEvents(api)
	h.servePage(api)
	return h
}

// NewAPI puts a documented API on a mux: OpenAPI 3.1 at /openapi.json, errors as
// problems, no page that loads anything from elsewhere.
func NewAPI(mux humago.Mux, title, version string) huma.API {
	c := huma.DefaultConfig(title, version)
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil
	return humago.New(mux, c)
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	SecureHeaders(w.Header(), r)
	ServeOrProblem(h.mux, w, r)
}

// Unknown makes a mux answer an unknown path or method with a problem.
func Unknown(mux *http.ServeMux) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { unknown(mux, w, r) })
}

// ServeOrProblem serves a request from a mux that Unknown was called for.
func ServeOrProblem(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	// A path that is not clean would be redirected; here it is just unknown.
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
		nothingAt(r.URL.Path).Write(w)
		return
	}
	mux.ServeHTTP(w, r)
}

func nothingAt(path string) *Problem {
	return NewProblem(CodeNotFound, "There is nothing at %s; see /openapi.json.", path)
}

// unknown answers what no other pattern of the mux takes.
func unknown(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var has []string
	for _, method := range []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "/" {
			has = append(has, method)
		}
	}
	if has == nil {
		nothingAt(r.URL.Path).Write(w)
		return
	}
	allow := strings.Join(has, ", ")
	p := NewProblem(CodeMethod, "%s is not a method of %s; it has %s.", r.Method, r.URL.Path, allow)
	p.Header = map[string]string{"Allow": allow}
	p.Write(w)
}

// place is the hot path: a plain handler, described in the same document.
func (h *Handler) place(w http.ResponseWriter, r *http.Request) {
	traced, step := h.service.tracing.ask(r)
	leave, err := h.config.Funnel.enter(r)
	defer leave()
	var ask Ask
	if err == nil {
		ask, err = h.readAsk(w, r)
	}
	if err != nil {
		h.service.metrics.admitted(Placed{}, err, 0)
		step.asked(ask.Activity, Placed{}, err)
		h.problem(w, r, err)
		return
	}
	if p := h.service.remembered(ask); p != nil {
		step.asked(ask.Activity, Placed{}, p)
		p.Write(w)
		return
	}
	ctx, cancel := context.WithTimeout(traced, h.config.Timeout)
	defer cancel()
	placed, err := h.service.Place(ctx, ask)
	step.asked(ask.Activity, placed, err)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	status := http.StatusAccepted
	if placed.Repeat {
		status = http.StatusOK
	}
	header := w.Header()
	header["Content-Type"] = []string{"application/json"}
	header["Cache-Control"] = []string{"no-store"}
	header["Location"] = []string{orderPath(placed.Activity, placed.ID)}
	w.WriteHeader(status)
	_, _ = w.Write(placed.appendJSON(nil)) // a buyer who is gone asks again
}

// appendJSON writes the answer by hand: every part is a name, a number or a UUID
// that has been checked, so nothing needs escaping.
func (p Placed) appendJSON(b []byte) []byte {
	b = append(b, `{"order_id":"`...)
	b = append(b, p.ID...)
	b = append(b, `","status":"`...)
	b = append(b, p.Status...)
	b = append(b, `","activity":"`...)
	b = append(b, p.Activity...)
	b = append(b, `","sku":"`...)
	b = append(b, p.SKU...)
	b = append(b, `","quantity":`...)
	b = strconv.AppendInt(b, p.Quantity, 10)
	return append(b, "}\n"...)
}

func (h *Handler) readAsk(w http.ResponseWriter, r *http.Request) (Ask, error) {
	user, err := h.config.Identify(r)
	if err != nil {
		return Ask{}, err
	}
	activity := r.PathValue("activity")
	if !ValidName(activity) {
		return Ask{}, NewProblem(CodeNotFound, "There is no such activity.")
	}
	if err := h.config.Funnel.admit(r, user, activity); err != nil {
		return Ask{}, err
	}
	key := ""
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		if key = keys[0]; len(keys) > 1 || !ValidKey(key) {
			return Ask{}, NewProblem(CodeInvalid, "Idempotency-Key is 1 to 255 printable ASCII characters, given once.")
		}
	}
	body, err := readOrder(w, r)
	if err != nil {
		return Ask{}, err
	}
	return Ask{Activity: activity, User: user, SKU: body.SKU, Quantity: body.Quantity, Key: key}, nil
}

// problem writes an error; what is not the buyer's doing is logged with its cause.
func (h *Handler) problem(w http.ResponseWriter, r *http.Request, err error) {
	p := AsProblem(err)
	if p.Cause != nil && p.Status >= http.StatusInternalServerError {
		h.config.Logger.Debug("request not served", "method", r.Method, "path", r.URL.Path, "code", p.Code, "error", p.Cause)
	}
	p.Write(w)
}

// buyer identifies who calls an operation that the OpenAPI layer serves.
func (h *Handler) buyer(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	user, err := h.config.Identify(r)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	next(huma.WithValue(ctx, buyerKey{}, user))
}

// paced is buyer for what changes something: address and buyer have their limits.
func (h *Handler) paced(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if err := h.config.Funnel.knock(r); err != nil {
		h.refuse(w, r, err)
		return
	}
	h.buyer(ctx, func(ctx huma.Context) {
		if err := h.config.Funnel.pace(buyerOf(ctx.Context()), 1); err != nil {
			h.refuse(w, r, err)
			return
		}
		next(ctx)
	})
}

// refuse answers who is turned away from a route that places no order, and counts it.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.service.metrics.turnedAway(err)
	h.problem(w, r, err)
}

type buyerKey struct{}

func buyerOf(ctx context.Context) string {
	user, _ := ctx.Value(buyerKey{}).(string)
	return user
}

func etag(body string) string {
	h := fnv.New64a()
	h.Write([]byte(body))
	return fmt.Sprintf(`"%016x"`, h.Sum64())
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := formatTime(t)
	return &s
}

// parseWait reads ?wait=.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longestWait {
		return 0, NewProblem(CodeInvalid, "wait is a duration from 0s to %s, such as 10s.", longestWait)
	}
	return d, nil
}
