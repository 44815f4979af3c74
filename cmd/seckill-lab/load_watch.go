package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	watchEvery  = 250 * time.Millisecond // during the load: reading metrics costs the service a millisecond or so
	watchFaster = 50 * time.Millisecond  // after it
	scrapeTime  = 5 * time.Second
)

// sample is what the services' metrics said at one moment.
type sample struct {
	at      time.Duration // from the start of the load
	settled int64         // orders with a new final or live row
	gc      gcPauses
}

// gcPauses are the stop-the-world pauses of the garbage collector, over all processes.
type gcPauses struct {
	Count   uint64  `json:"count"`
	TotalMS float64 `json:"total_ms"`
	MaxMS   float64 `json:"longest_ms"` // of the process's life
}

// scrape reads the metrics of every admin address and adds them up.
func scrape(ctx context.Context, admins []string) (s sample, err error) {
	for _, admin := range admins {
		families, err := readMetrics(ctx, admin)
		if err != nil {
			return s, fmt.Errorf("read the metrics of %s: %w", admin, err)
		}
		for _, m := range families["seckill_settle_total"].GetMetric() {
			if outcome := labelOf(m, "outcome"); outcome != "already" && outcome != "held" {
				s.settled += int64(m.GetCounter().GetValue())
			}
		}
		for _, m := range families["go_gc_duration_seconds"].GetMetric() {
			pauses := m.GetSummary()
			s.gc.Count += pauses.GetSampleCount()
			s.gc.TotalMS += pauses.GetSampleSum() * 1000
			for _, q := range pauses.GetQuantile() {
				s.gc.MaxMS = max(s.gc.MaxMS, q.GetValue()*1000)
			}
		}
	}
	return s, nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, label := range m.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

func readMetrics(ctx context.Context, admin string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(admin, "/")+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(answer.Body, 16<<20))
}

// watcher samples the services while a load goes on.
type watcher struct {
	admins  []string
	before  sample
	samples []sample // since before
	err     error    // the last look that failed
}

// begin takes the state from which everything is counted.
func (w *watcher) begin(ctx context.Context) (err error) {
	if len(w.admins) > 0 {
		w.before, err = scrape(ctx, w.admins)
	}
	return err
}

func (w *watcher) look(ctx context.Context, start time.Time) {
	if len(w.admins) == 0 {
		return
	}
	s, err := scrape(ctx, w.admins)
	if err != nil {
		w.err = err
		return
	}
	s.at = time.Since(start)
	s.settled -= w.before.settled
	s.gc.Count -= w.before.gc.Count
	s.gc.TotalMS -= w.before.gc.TotalMS
	w.samples = append(w.samples, s)
}

// during looks until ctx ends.
func (w *watcher) during(ctx context.Context, start time.Time) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(ctx, start)
		}
	}
}

// until looks until so many are settled, patience ends, or ctx does.
func (w *watcher) until(ctx context.Context, start time.Time, settled int64, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(watchFaster)
	defer ticker.Stop()
	for w.look(ctx, start); w.last().settled < settled; w.look(ctx, start) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// last is the newest sample, the zero one if there is none.
func (w *watcher) last() sample {
	if len(w.samples) == 0 {
		return sample{}
	}
	return w.samples[len(w.samples)-1]
}

// reached is when the present number of settled orders was first seen.
func (w *watcher) reached() time.Duration {
	at := time.Duration(0)
	for i := len(w.samples) - 1; i >= 0 && w.samples[i].settled == w.last().settled; i-- {
		at = w.samples[i].at
	}
	return at
}
