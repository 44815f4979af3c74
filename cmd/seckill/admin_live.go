package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
)

const (
	livePath = "/admin/v1/live"
	// longestLive ends a stream; the browser comes back by itself.
	longestLive = time.Hour
	// liveHeartbeat keeps proxies from closing a silent stream.
	liveHeartbeat = 15 * time.Second
	// liveWrite bounds one write: who does not read is let go.
	liveWrite = 10 * time.Second
)

// serve streams the live state as server-sent events, until the client or the session
// is gone, the process stops or the time is over.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	one := l.join()
	if one == nil {
		admission.NewProblem(admission.CodeOverloaded, "%d consoles watch this process already.", mostListeners).Write(w)
		return
	}
	defer l.leave(one)
	ctx, cancel := context.WithDeadline(r.Context(), liveUntil(callerOf(r.Context()), time.Now()))
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx is not to collect it
	beat := time.NewTicker(liveHeartbeat)
	defer beat.Stop()
	err := writeStream(w, "retry: 2000\n\n")
	for err == nil {
		select {
		case <-one.news:
			err = l.send(w, one)
		case <-beat.C:
			err = writeStream(w, ": still here\n\n")
		case <-ctx.Done():
			return
		case <-l.ended:
			return
		}
	}
}

// liveUntil is when a stream ends: with its session at the latest.
func liveUntil(who caller, now time.Time) time.Time {
	until := now.Add(longestLive)
	if who.session != nil && who.session.expires.Before(until) {
		return who.session.expires
	}
	return until
}

// send sends what the listener does not have yet.
func (l *live) send(w http.ResponseWriter, one *listener) error {
	sample, jobs := l.next(one)
	text := ""
	for _, view := range jobs {
		data, err := json.Marshal(view)
		if err != nil {
			return fmt.Errorf("encode job %s: %w", view.Job, err)
		}
		text += "event: job\ndata: " + string(data) + "\n\n"
	}
	if sample.data != nil {
		text += fmt.Sprintf("event: sample\nid: %d\ndata: %s\n\n", sample.seq, sample.data)
	}
	if text == "" {
		return nil
	}
	return writeStream(w, text)
}

func writeStream(w http.ResponseWriter, text string) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(liveWrite)); err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return c.Flush()
}

// register serves the stream by hand and writes it into the document.
func (l *live) register(mux *routes, api huma.API) {
	mux.stream("GET "+livePath, l.serve)
	sample := api.OpenAPI().Components.Schemas.Schema(sampleType, true, "")
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: (&admission.Problem{}).Schema(nil)}}
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "watch-live", Method: http.MethodGet, Path: livePath,
		Summary: "The state of the installation, about once a second, and the jobs of this process, as server-sent events",
		Responses: map[string]*huma.Response{
			"200": {
				Description: "Events named sample, with the state at one moment, and job, with a job that began, went on or ended",
				Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: sample}},
			},
			"401": {Description: http.StatusText(http.StatusUnauthorized), Content: problem},
			"503": {Description: http.StatusText(http.StatusServiceUnavailable), Content: problem},
		},
	})
}
