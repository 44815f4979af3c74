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

// The values of the labels outcome and reason.
var (
	askOutcomes = []string{
		outcomeAccepted, outcomeRepeated, string(CodeInvalid), string(CodeUnauthenticated), string(CodeDenied),
		string(CodeTicketRequired), string(CodeTicketInvalid), string(CodeRateLimited), string(CodeNotFound),
		string(CodeTooLarge), string(CodeMediaType), string(CodeSoldOut), string(CodeLimitReached), string(CodeNotStarted),
		string(CodeEnded), string(CodeMismatch), string(CodeNotReady), string(CodePaused), string(CodeOverloaded),
		string(CodeUnknown), string(CodeInternal),
	}
	refusals = []string{
		"in-flight", "cpu", "denied-address", "address-limit", "denied-buyer", "buyer-limit", "no-ticket", "bad-ticket",
		"gate-breaker", "log-breaker", "queue", "log", "backlog",
	}
)

const (
	outcomeAccepted = "accepted"
	outcomeRepeated = "repeated"
)

// NewMetrics registers the metrics; a nil registerer registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	m := &Metrics{
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_admission_total",
			Help: "Answers to buyers who asked for an order: accepted, repeated, or the code of the problem.",
		}, []string{"outcome"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_refused_total",
			Help: "Requests turned away before the gate or because of a backlog, by the limit that refused.",
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
	// From 0 on: the first event of a series that begins with 1 is no increase to Prometheus.
	for _, outcome := range askOutcomes {
		m.outcomes.WithLabelValues(outcome)
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	return m
}

func (m *Metrics) admitted(p Placed, err error, took time.Duration) {
	m.turnedAway(err)
	m.outcomes.WithLabelValues(outcomeOf(p, err)).Inc()
	m.latency.Observe(took.Seconds())
}

// outcomeOf is the word for an answer: accepted, repeated, or the code of the problem.
func outcomeOf(p Placed, err error) string {
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return string(problem.Code)
	case err != nil:
		return string(CodeInternal)
	case p.Repeat:
		return outcomeRepeated
	}
	return outcomeAccepted
}

// turnedAway counts a refusal by the limit that refused, if one did.
func (m *Metrics) turnedAway(err error) {
	var problem *Problem
	if errors.As(err, &problem) && problem.Reason != "" {
		m.refused.WithLabelValues(problem.Reason).Inc()
	}
}
