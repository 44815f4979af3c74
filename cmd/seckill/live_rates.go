package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// rateWindow is over how long percentiles are taken.
const rateWindow = 10 * time.Second

// rates turns this process's counters and histograms into what has happened lately.
type rates struct {
	gatherer prometheus.Gatherer
	past     []reading // oldest first; within rateWindow, and one before it
}

// reading is what the metrics said at one moment.
type reading struct {
	at         time.Time
	counters   map[string]map[string]float64 // by metric and value of its label
	histograms map[string]histogram
}

// histogram is cumulative: so many observations of at most so many seconds.
type histogram struct {
	count   uint64
	buckets []bucket
}

type bucket struct {
	upper float64 // seconds
	count uint64
}

func (r *rates) read(now time.Time) (reading, error) {
	families, err := r.gatherer.Gather()
	if err != nil {
		return reading{}, err
	}
	n := reading{at: now, counters: map[string]map[string]float64{}, histograms: map[string]histogram{}}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n.add(f.GetName(), m)
		}
	}
	return n, nil
}

func (n reading) add(name string, m *dto.Metric) {
	if c := m.GetCounter(); c != nil && len(m.GetLabel()) == 1 {
		if n.counters[name] == nil {
			n.counters[name] = map[string]float64{}
		}
		n.counters[name][m.GetLabel()[0].GetValue()] = c.GetValue()
	}
	if h := m.GetHistogram(); h != nil && len(m.GetLabel()) == 0 {
		all := histogram{count: h.GetSampleCount()}
		for _, b := range h.GetBucket() {
			all.buckets = append(all.buckets, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
		}
		n.histograms[name] = all
	}
}

// readMetrics fills in the funnel since the sample before, and the latencies.
func (l *lookout) readMetrics(_ context.Context, s *liveSample) error {
	now, err := l.rates.read(time.Now())
	if err != nil {
		return err
	}
	if past := l.rates.past; len(past) > 0 {
		s.Funnel = now.funnel(past[len(past)-1])
		s.Latency = now.latencies(past[0])
	}
	l.rates.keep(now)
	return nil
}

// keep remembers a reading, and forgets those that the window has left.
func (r *rates) keep(now reading) {
	r.past = append(r.past, now)
	for len(r.past) > 2 && now.at.Sub(r.past[1].at) >= rateWindow {
		r.past = r.past[1:]
	}
}

// since is the growth of a counter a second, by the value of its label.
func (n reading) since(before reading, name string) map[string]float64 {
	growth, seconds := map[string]float64{}, n.at.Sub(before.at).Seconds()
	for value, count := range n.counters[name] {
		growth[value] = (count - before.counters[name][value]) / seconds
	}
	return growth
}

func (n reading) funnel(before reading) *liveFunnel {
	f := &liveFunnel{
		Seconds: n.at.Sub(before.at).Seconds(), Refused: n.since(before, "seckill_admission_total"),
		Limits: n.since(before, "seckill_refused_total"), Settled: n.since(before, "seckill_settle_total"),
	}
	for _, rate := range f.Refused {
		f.Asked += rate
	}
	f.Accepted, f.Repeated = f.Refused["accepted"], f.Refused["repeated"]
	delete(f.Refused, "accepted")
	delete(f.Refused, "repeated")
	return f
}

func (n reading) latencies(before reading) *liveLatencies {
	of := func(name string) liveLatency { return n.histograms[name].less(before.histograms[name]).latency() }
	return &liveLatencies{
		Admission: of("seckill_admission_seconds"), Append: of("seckill_append_seconds"),
		Settle: of("seckill_settle_seconds"), Order: of("seckill_order_seconds"),
	}
}

// less is what was observed since a histogram was as before.
func (h histogram) less(before histogram) histogram {
	d := histogram{count: h.count - before.count}
	for i, b := range h.buckets {
		if i < len(before.buckets) {
			b.count -= before.buckets[i].count
		}
		d.buckets = append(d.buckets, b)
	}
	return d
}

func (h histogram) latency() liveLatency {
	return liveLatency{Count: h.count, P50MS: h.percentile(0.5), P90MS: h.percentile(0.9), P99MS: h.percentile(0.99), P999MS: h.percentile(0.999)}
}

// percentile interpolates inside the bucket that has it, in milliseconds; nil without
// observations. What is above the last bound is told as that bound.
func (h histogram) percentile(q float64) *float64 {
	if h.count == 0 || len(h.buckets) == 0 {
		return nil
	}
	rank, lower, below := q*float64(h.count), 0.0, uint64(0)
	for _, b := range h.buckets {
		if float64(b.count) >= rank && b.count > below {
			ms := 1000 * (lower + (b.upper-lower)*(rank-float64(below))/float64(b.count-below))
			return &ms
		}
		lower, below = b.upper, b.count
	}
	ms := 1000 * lower
	return &ms
}
