package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	// mostStreams bounds the open streams of a node.
	mostStreams = 10_000
	// longestStream ends a stream whose order stays undecided or unpaid; the client
	// comes back by itself and says which event it has seen.
	longestStream = 15 * time.Minute
	// heartbeat keeps proxies from closing a silent stream.
	heartbeat = 15 * time.Second
	// eventWrite bounds one write: who does not read is let go.
	eventWrite = 10 * time.Second
)

// events serves an order's changes as server-sent events until nothing more is
// awaited: the order is decided and need not be paid. The id of an event is the tag of
// the order's state, so a client that has seen it is not sent it again.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	user, err := h.config.Identify(r)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	activity, id := r.PathValue("activity"), r.PathValue("id")
	if !ValidName(activity) || !ValidID(id) {
		h.problem(w, r, NewProblem(CodeNotFound, "You have no order %s.", id))
		return
	}
	defer h.countStream(-1)
	if h.countStream(1) > mostStreams {
		h.problem(w, r, tooManyStreams())
		return
	}
	watch, err := h.service.watch(r.Context(), activity, user, id)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	defer watch.stop()
	switch s := newStream(w, r.Header.Get("Last-Event-ID")); {
	case watch.changes == nil:
		h.problem(w, r, tooManyStreams())
	case !awaited(watch.row.Status) && s.has(watch.row):
		w.WriteHeader(http.StatusNoContent) // tells the client not to come back
	default:
		h.stream(r.Context(), s, watch)
	}
}

func (h *Handler) countStream(more int64) int64 {
	n := h.streams.Add(more)
	h.service.metrics.streams.Set(float64(n))
	return n
}

func tooManyStreams() *Problem {
	return NewProblem(CodeOverloaded, "Too many orders are watched here; read the order with ?wait= instead, or ask again.")
}

// awaited says whether a change is to come soon, or is waited for by the buyer.
func awaited(s Status) bool { return s == Accepted || s == Held || s == PendingPayment }

// stream sends the order's states until nothing is awaited, the client is gone, the
// node stops or the time is over.
func (h *Handler) stream(ctx context.Context, s *stream, watch watch) {
	ctx, cancel := context.WithTimeout(ctx, longestStream)
	defer cancel()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := s.open(watch.row)
	for row := watch.row; err == nil && awaited(row.Status); {
		select {
		case row = <-watch.changes:
			err = s.send(row)
		case <-beat.C:
			err = s.write(": still here\n\n")
		case <-h.service.waiting.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stream writes server-sent events.
type stream struct {
	w    http.ResponseWriter
	http *http.ResponseController
	last string // id of the newest event that the client has
}

func newStream(w http.ResponseWriter, last string) *stream {
	return &stream{w: w, http: http.NewResponseController(w), last: last}
}

// open begins the stream; clients that lose it come back within one to three seconds,
// not all at once.
func (s *stream) open(row Row) error {
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx is not to collect it
	if err := s.write(fmt.Sprintf("retry: %d\n\n", 1000+rand.IntN(2000))); err != nil {
		return err
	}
	return s.send(row)
}

func (s *stream) has(row Row) bool { return s.last == eventID(row.View()) }

// send sends the state of an order, unless the client has it.
func (s *stream) send(row Row) error {
	if s.has(row) {
		return nil
	}
	v := row.View()
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode order %s: %w", v.ID, err)
	}
	s.last = eventID(v)
	return s.write("event: status\nid: " + s.last + "\ndata: " + string(data) + "\n\n")
}

func eventID(v OrderView) string { return strings.Trim(v.tag(), `"`) }

func (s *stream) write(text string) error {
	if err := s.http.SetWriteDeadline(time.Now().Add(eventWrite)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.http.Flush()
}

// describeEvents serves the stream by hand and writes it into the document.
func (h *Handler) describeEvents(api huma.API) {
	const path = "/v1/activities/{activity}/orders/{id}/events"
	h.mux.HandleFunc("GET "+path, h.events)
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: (&Problem{}).Schema(nil)}}
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "watch-order", Method: http.MethodGet, Path: path,
		Summary: "Changes of an order of yours, as server-sent events, until it is decided and need not be paid",
		Parameters: []*huma.Param{
			{Name: "activity", In: "path", Required: true, Schema: text("the sale")},
			{Name: "id", In: "path", Required: true, Schema: text("the order")},
			{Name: "Last-Event-ID", In: "header", Schema: text("id of the newest event that you have; it is not sent again")},
		},
		Responses: map[string]*huma.Response{
			"200": {Description: "Events named status; id names the state, data is the order as JSON. Comments keep the stream alive; it ends after 15 minutes at most", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: text("")}}},
			"204": {Description: "You have the last event: nothing more is awaited"},
			"401": {Description: http.StatusText(http.StatusUnauthorized), Content: problem},
			"404": {Description: http.StatusText(http.StatusNotFound), Content: problem},
			"503": {Description: http.StatusText(http.StatusServiceUnavailable), Content: problem},
		},
	})
}
