package admission

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics of admission. No user, order or key is in a label.
type Metrics struct {
	outcomes  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	latency   prometheus.Histogram
	batchSize prometheus.Histogram
	append    prometheus.Histogram
	waiting   prometheus.Gauge
	streams   prometheus.Gauge
}

// NewMetrics registers the metrics; a nil registerer registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	return &Metrics{
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_admission_total",
			Help: "Answers to buyers who asked for an order: accepted, repeated, or the code of the problem.",
		}, []string{"outcome"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_refused_total",
			Help: "Buyers turned away before the gate or because of a backlog, by the limit that refused.",
		}, []string{"reason"}),
		latency: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_admission_seconds", Help: "Time from a buyer's request to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		batchSize: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_admission_batch_size", Help: "Buyers in one run of the gate's script.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		append: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_append_seconds", Help: "Time until the order log had a batch on disk.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14),
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "seckill_waiting_buyers", Help: "Buyers of this node who wait for a change of an order, streams included.",
		}),
		streams: f.NewGauge(prometheus.GaugeOpts{
			Name: "seckill_order_streams", Help: "Streams of events of an order that are open on this node.",
		}),
	}
}

func (m *Metrics) admitted(p Placed, err error, took time.Duration) {
	outcome := "accepted"
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		outcome = string(problem.Code)
		if problem.Reason != "" {
			m.refused.WithLabelValues(problem.Reason).Inc()
		}
	case err != nil:
		outcome = string(CodeInternal)
	case p.Repeat:
		outcome = "repeated"
	}
	m.outcomes.WithLabelValues(outcome).Inc()
	m.latency.Observe(took.Seconds())
}
