package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// soldOutBuyers hold what there was when the sold-out loads begin; one request in ten is theirs.
const soldOutBuyers = 1000

// rateRounds are the figures of each round.
type rateRounds struct {
	noop, admitted, drain  []float64 // answers/s, 202/s, seconds after the load until all is settled
	memory, gate           []float64 // answers/s of a sold-out sale, without and with the gate
	p99, noopP99           []float64 // ms, at half the admitted rate
	refusedBytes           []float64 // of Redis, per refused request
	longest                time.Duration
	longestRate            float64
	longestKept            bool
	durable                durability
	longestSent, longestOK int64
}

// openRates is the service that everything of this part is measured on.
func (m *measuring) openRates(ctx context.Context) (*stand, error) {
	s, err := openStand(ctx, m.words, m.options.program, "etcd")
	if err != nil {
		return nil, err
	}
	m.facts, err = readFacts(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (m *measuring) measureRates(ctx context.Context) (err error) {
	s, err := m.openRates(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for round := range m.rounds {
		if err := m.rateRound(ctx, s, round); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		r := &m.rates
		fmt.Fprintf(m.words, "  round %d: N %.0f/s, admitted %.0f/s, sold out %.0f/s, through the gate %.0f/s, p99 %.1f ms, of N %.1f ms\n", round+1,
			r.noop[round], r.admitted[round], r.memory[round], r.gate[round], r.p99[round], r.noopP99[round])
	}
	if err := m.longLoad(ctx, s); err != nil {
		return fmt.Errorf("the long load: %w", err)
	}
	m.rateRows()
	return nil
}

// rateRound measures each once, all within half a minute.
func (m *measuring) rateRound(ctx context.Context, s *stand, round int) error {
	r := &m.rates
	noop, err := m.noopLoad(ctx, 0)
	if err != nil {
		return fmt.Errorf("no-op: %w", err)
	}
	r.noop = append(r.noop, noop.load.Rate())

	admitted, err := m.admit(ctx, s, fmt.Sprint("full-", round), 0, m.each)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	rate := perSecond(admitted.heard.accepted.Load(), admitted.load.Elapsed)
	r.admitted = append(r.admitted, rate)
	took, ok := admitted.drained()
	if !ok {
		return errors.New("admission: not everything was settled")
	}
	r.drain = append(r.drain, took.Seconds())
	r.durable = admitted.durable

	for _, left := range []int64{0, 1} {
		if err := m.soldOut(ctx, s, fmt.Sprintf("sold-out-%d-%d", left, round), left); err != nil {
			return fmt.Errorf("sold out with %d left: %w", left, err)
		}
	}
	half, err := m.admit(ctx, s, fmt.Sprint("half-", round), rate/2, m.each)
	if err != nil {
		return fmt.Errorf("half the rate: %w", err)
	}
	r.p99 = append(r.p99, p99Of(half, "202"))
	if noop, err = m.noopLoad(ctx, rate/2); err != nil {
		return fmt.Errorf("no-op at half the rate: %w", err)
	}
	r.noopP99 = append(r.noopP99, p99Of(noop, "202"))
	return nil
}

func p99Of(s *sent, kindName string) float64 {
	for _, kind := range s.load.Kinds {
		if kind.Name == kindName {
			return ms(kind.Latency.At(99))
		}
	}
	return 0
}

// noopLoad sends the same requests to the ceiling.
func (m *measuring) noopLoad(ctx context.Context, rate float64) (*sent, error) {
	t := &target{public: m.noop, activities: []string{"noop"}, skus: []string{saleSKUName}}
	return sendOnly(ctx, io.Discard, t, m.load(rate, m.each, newThrong(t.offers(), 1<<30, 0, 1)))
}

// admit sends new buyers to a sale that does not sell out.
func (m *measuring) admit(ctx context.Context, s *stand, activity string, rate float64, each time.Duration) (*sent, error) {
	t := m.auditedTarget(s, activity)
	if err := s.serving.openSKUs(ctx, activity, "Results", t.skus, fullUnits, 1); err != nil {
		return nil, err
	}
	return m.clean(ctx, t, m.load(rate, each, newThrong(t.offers(), 1<<30, 0, 1)))
}

func (m *measuring) auditedTarget(s *stand, activities ...string) *target {
	t := s.target(activities, []string{saleSKUName})
	t.audit = auditByCommand(m.options.program, s.servers.Env("etcd"))
	return t
}

// soldOut measures a sale of which nothing, or one unit too few, is left: everybody wants two. The requests are
// the same; only with nothing left may a node answer without the gate.
func (m *measuring) soldOut(ctx context.Context, s *stand, activity string, left int64) error {
	t := m.auditedTarget(s, activity)
	if err := s.serving.openSKUs(ctx, activity, "Results", t.skus, 2*soldOutBuyers+left, 2); err != nil {
		return err
	}
	th := newThrong(t.offers(), 1<<30, 0, 1)
	th.asks(t.offers(), 2)
	th.keyAll = true
	first := m.load(0, m.each, th)
	first.requests = soldOutBuyers
	if _, err := m.clean(ctx, t, first); err != nil {
		return err
	}
	th.holders, th.repeats = soldOutBuyers, 0.1
	before, err := redisMemory(ctx, s)
	if err != nil {
		return err
	}
	out, err := m.clean(ctx, t, m.load(0, m.each, th))
	if err != nil {
		return err
	}
	after, err := redisMemory(ctx, s)
	if err != nil {
		return err
	}
	refused := out.load.Count("409 sold-out")
	if known := out.load.Count("200"); (refused+known)*100 < out.load.Sent*99 || known*20 < refused {
		return fmt.Errorf("%d sold out and %d repeats of %d requests: too few to be the load that was meant", refused, known, out.load.Sent)
	}
	r := &m.rates
	r.refusedBytes = append(r.refusedBytes, float64(after-before)/float64(refused))
	if left == 0 {
		r.memory = append(r.memory, out.load.Rate())
	} else {
		r.gate = append(r.gate, out.load.Rate())
	}
	return nil
}

// longLoad looks for an answer that took too long.
func (m *measuring) longLoad(ctx context.Context, s *stand) error {
	r := &m.rates
	r.longestRate = medianOf(r.admitted) / 2
	out, err := m.admit(ctx, s, "long", r.longestRate, m.long)
	if err != nil {
		return err
	}
	r.longest = out.load.Latency.Max()
	r.longestKept, _ = out.load.RateKept()
	r.longestSent, r.longestOK = out.load.Sent, out.load.Count("202")
	return nil
}

func (m *measuring) rateRows() {
	r := &m.rates
	rate := func(n float64) string { return count(int64(n)) + "/s" }
	n := medianOf(r.noop)
	admitted, drain := medianOf(ratios(r.admitted, r.noop)), medianOf(r.drain)
	m.row(resultRow{
		"admitted: 202 after the log's fsync", rate(medianOf(r.admitted)) + fmt.Sprintf(", all settled %.1f s after the load", drain), "N " + rate(n),
		fmt.Sprintf("%.2f N", admitted), "at least 0.35 N, aim 0.45 N; settled within 2 s", admitted >= 0.35 && drain <= 2,
	})
	soldOut := medianOf(ratios(r.memory, r.noop))
	m.row(resultRow{
		"sold out, one request in ten of an existing buyer", rate(medianOf(r.memory)), "N " + rate(n),
		fmt.Sprintf("%.2f N", soldOut), "at least 0.75 N, aim 0.9 N", soldOut >= 0.75,
	})
	gate := medianOf(ratios(r.memory, r.gate))
	m.row(resultRow{
		"the same, against the gate", rate(medianOf(r.memory)), "through the gate " + rate(medianOf(r.gate)),
		fmt.Sprintf("%.2f", gate), "at least 1.15", gate >= 1.15,
	})
	latency := medianOf(ratios(r.p99, r.noopP99))
	m.row(resultRow{
		"p99 of the 202 at half the admitted rate", fmt.Sprintf("%.1f ms", medianOf(r.p99)), fmt.Sprintf("N at that rate %.1f ms", medianOf(r.noopP99)),
		fmt.Sprintf("%.1f", latency), "at most 20", latency <= 20 && latency > 0,
	})
	kept := "rate kept"
	if !r.longestKept {
		kept = "rate NOT kept"
	}
	m.row(resultRow{
		fmt.Sprintf("longest answer in %v at %s", m.long, rate(r.longestRate)), short(r.longest),
		fmt.Sprintf("%s sent, %s of them 202; %s", count(r.longestSent), count(r.longestOK), kept),
		"", "none over 1 s", r.longest <= time.Second && r.longestKept && r.longestOK == r.longestSent,
	})
	refused := medianOf(r.refusedBytes)
	m.row(resultRow{
		"Redis per refused request", fmt.Sprintf("%.1f B", refused), "", "", "none", refused < 1,
	})
}
