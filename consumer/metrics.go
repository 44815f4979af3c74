package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"seckill/admission"
)

// alreadyDecided is the outcome of an order that had been decided before.
const alreadyDecided = "already"

// settleOutcomes are the values of the label outcome.
var settleOutcomes = []string{
	alreadyDecided, string(admission.Confirmed), string(admission.PendingPayment), string(admission.Rejected),
	string(admission.Held), string(admission.Cancelled),
}

// Metrics of settlement.
type Metrics struct {
	outcomes    *prometheus.CounterVec
	seconds     prometheus.Histogram
	batchSize   prometheus.Histogram
	order       prometheus.Histogram
	redelivered prometheus.Counter
	fenced      prometheus.Counter
}

// NewMetrics registers the metrics; a nil registerer registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	m := &Metrics{
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_settle_total", Help: "Orders taken from the log: the status the ledger gave them, or already.",
		}, []string{"outcome"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_settle_seconds", Help: "Time of one settlement transaction.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		batchSize: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_settle_batch_size", Help: "Orders in one settlement transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		order: f.NewHistogram(prometheus.HistogramOpts{
			Name: "seckill_order_seconds", Help: "Time from the reservation of an order to its settlement.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 16),
		}),
		redelivered: f.NewCounter(prometheus.CounterOpts{
			Name: "seckill_redelivered_total", Help: "Log messages that came to a worker again.",
		}),
		fenced: f.NewCounter(prometheus.CounterOpts{
			Name: "seckill_fenced_total", Help: "Settlements refused because another worker had taken the partition.",
		}),
	}
	// From 0 on: the first event of a series that begins with 1 is no increase to Prometheus.
	for _, outcome := range settleOutcomes {
		m.outcomes.WithLabelValues(outcome)
	}
	return m
}

func (m *Metrics) settled(decisions []Decision, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	m.batchSize.Observe(float64(len(decisions)))
	for _, d := range decisions {
		if d.Already {
			m.outcomes.WithLabelValues(alreadyDecided).Inc()
			continue
		}
		m.outcomes.WithLabelValues(string(d.Status)).Inc()
		m.order.Observe(time.Since(d.At).Seconds())
	}
}
