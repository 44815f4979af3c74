package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

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
	return &Metrics{
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
}

func (m *Metrics) settled(decisions []Decision, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	m.batchSize.Observe(float64(len(decisions)))
	for _, d := range decisions {
		if d.Already {
			m.outcomes.WithLabelValues("already").Inc()
			continue
		}
		m.outcomes.WithLabelValues(string(d.Status)).Inc()
		m.order.Observe(time.Since(d.At).Seconds())
	}
}
