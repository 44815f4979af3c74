package locktest

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/lockprovider"
)

func lossesCounted(e *Env) {
	reg := prometheus.NewRegistry()
	x := NewProxy(e.T, e.address)
	cfg := e.configAt(x.Address())
	cfg.Registerer = reg
	p := e.OpenWith(cfg)
	a := e.Acquire(p, "a", lockprovider.WithPurpose("job"))
	e.Must(e.raw.Delete("a"))
	e.reason(e.Ends(soon, a), lockprovider.Revoked)
	b := e.Acquire(p, "b")
	x.Drop()
	e.reason(e.Ends(soon, b), lockprovider.Expired)
	if _, err := p.TryAcquire(e.Ctx(soon), "c"); err == nil {
		e.Fatalf("acquired on a silent store")
	}
	for what, want := range map[string]float64{
		"seckill_lock_lost_total revoked":             1,
		"seckill_lock_lost_total expired":             1,
		"seckill_lock_acquire_total":                  3,
		"seckill_lock_acquire_fail_total unavailable": 1,
		"seckill_lock_held":                           0,
		"seckill_lock_hold_seconds job":               1,
		"seckill_lock_wait_seconds":                   2,
		"seckill_lock_token_regression_total":         0,
		"seckill_lock_watchdog_renew_fail_total >=":   1,
		"seckill_lock_watchdog_renew_total >=":        1,
	} {
		got := series(e, reg, what)
		if got != want && !(strings.HasSuffix(what, ">=") && got >= want) {
			e.Errorf("%s is %v, want %v", what, got, want)
		}
	}
}

// series sums the samples of a metric that carry the given label value; of a
// histogram, the counts.
func series(e *Env, reg *prometheus.Registry, what string) float64 {
	name, value, _ := strings.Cut(strings.TrimSuffix(what, " >="), " ")
	families, err := reg.Gather()
	e.Must(err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := value == ""
			for _, l := range m.GetLabel() {
				match = match || l.GetValue() == value
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func noRenewalAfterRelease(e *Env) {
	rounds := 300
	if e.h.Long {
		rounds = 10000
	}
	reg := prometheus.NewRegistry()
	cfg := e.config()
	cfg.Registerer = reg
	p := e.OpenWith(cfg)
	for range rounds {
		e.Release(e.Acquire(p, "n"))
	}
	before := series(e, reg, "seckill_lock_watchdog_renew_total")
	e.hold(e.Acquire(e.Open(), "other"), TTL) // time passes
	if after := series(e, reg, "seckill_lock_watchdog_renew_total"); e.Backend == "redis" && after != before {
		e.Fatalf("%v renewals of released locks", after-before)
	}
}
