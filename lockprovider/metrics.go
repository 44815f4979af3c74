package lockprovider

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the series of one backend. Names never appear in a label; they go to
// the trace.
type metrics struct {
	acquire, undo, tokenRegression, sessionRecreated prometheus.Counter
	renew, renewFail, releaseFail                    prometheus.Counter
	acquireFail, lost, wakeup                        *prometheus.CounterVec
	wait, renewSeconds, remaining                    prometheus.Observer
	hold                                             prometheus.ObserverVec
	held, waiters, releasePending                    prometheus.Gauge
}

var (
	waitBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holdBuckets  = []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	ratioBuckets = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
)

// registrar makes or finds collectors, so that providers of one process share them.
type registrar struct {
	to      prometheus.Registerer
	backend string
	err     error
}

func register[T prometheus.Collector](r *registrar, made T) T {
	if r.to == nil || r.err != nil {
		return made
	}
	err := r.to.Register(made)
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		if found, ok := twice.ExistingCollector.(T); ok {
			return found
		}
	}
	if err != nil {
		r.err = fmt.Errorf("lockprovider: register metrics: %w", err)
	}
	return made
}

func (r *registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "seckill_lock_" + name, Help: help}, append([]string{"backend"}, labels...))
	return register(r, v).MustCurryWith(prometheus.Labels{"backend": r.backend})
}

func (r *registrar) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "seckill_lock_" + name, Help: help}, []string{"backend"})
	return register(r, v).WithLabelValues(r.backend)
}

func (r *registrar) histogram(name, help string, buckets []float64, labels ...string) prometheus.ObserverVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seckill_lock_" + name, Help: help, Buckets: buckets}, append([]string{"backend"}, labels...))
	return register(r, v).MustCurryWith(prometheus.Labels{"backend": r.backend})
}

func newMetrics(to prometheus.Registerer, backend string) (*metrics, error) {
	r := &registrar{to: to, backend: backend}
	m := &metrics{
		acquire:          r.counter("acquire_total", "Acquisitions that were granted or failed, nested ones excluded.").WithLabelValues(),
		acquireFail:      r.counter("acquire_fail_total", "Acquisitions that failed, by reason.", "reason"),
		wait:             r.histogram("wait_seconds", "Time from asking to having the lease.", waitBuckets).WithLabelValues(),
		hold:             r.histogram("hold_seconds", "Time from having the lease to its release or loss.", holdBuckets, "purpose"),
		held:             r.gauge("held", "Leases held by this process."),
		waiters:          r.gauge("waiters", "Acquisitions of this process that are waiting."),
		renew:            r.counter("watchdog_renew_total", "Leases whose renewal was asked for.").WithLabelValues(),
		renewFail:        r.counter("watchdog_renew_fail_total", "Leases whose renewal was not confirmed.").WithLabelValues(),
		renewSeconds:     r.histogram("renew_seconds", "Duration of one renewal request.", waitBuckets).WithLabelValues(),
		remaining:        r.histogram("remaining_ratio", "Share of the validity left when a renewal was confirmed; low values warn of a loss.", ratioBuckets).WithLabelValues(),
		lost:             r.counter("lost_total", "Leases lost while held, by reason.", "reason"),
		releaseFail:      r.counter("release_fail_total", "Release requests that were not confirmed.").WithLabelValues(),
		releasePending:   r.gauge("release_pending", "Releases not confirmed yet."),
		undo:             r.counter("undo_total", "Attempts of unknown outcome that had to be undone.").WithLabelValues(),
		tokenRegression:  r.counter("token_regression_total", "Tokens that did not rise; must stay 0.").WithLabelValues(),
		sessionRecreated: r.counter("session_recreated_total", "Sessions that were lost and replaced.").WithLabelValues(),
		wakeup:           r.counter("wakeup_total", "What woke a waiter.", "source"),
	}
	m.begin()
	return m, r.err
}

// begin makes the series that count events from 0 on: the first event of a series that
// begins with 1 is no increase to Prometheus.
func (m *metrics) begin() {
	for why := Expired; why < Closed; why++ {
		m.lost.WithLabelValues(why.String())
	}
	for _, k := range failures {
		m.acquireFail.WithLabelValues(k.word)
	}
	m.acquireFail.WithLabelValues(otherFailure)
	for _, source := range []string{wakeMessage, wakeResubbed, wakeTimer} {
		m.wakeup.WithLabelValues(source)
	}
}
