package consumer_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/admission"
	"seckill/consumer"
)

const (
	// machines run beside each other, each on stores of its own: a rebuild waits two
	// seconds, in which the others go on.
	machines = 6
	// patience is for what only a broken system does not do.
	patience = 30 * time.Second
)

// By default a few runs; make machine makes many.
func init() {
	for name, value := range map[string]string{"rapid.checks": "3", "rapid.nofailfile": "true", "rapid.shrinktime": "2m"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// TestMachine drives sales through random sequences of everything that can happen to
// them, in one goroutine, and compares the stores with a model and with the laws after
// each step; every run ends with a clean audit. A failure names the seed of its run:
//
//	go test -run 'TestMachine/0' ./consumer -rapid.checks 1 -rapid.seed SEED
func TestMachine(t *testing.T) {
	t.Parallel()
	seed := machineSeed()
	var steps, runs atomic.Int64
	began := time.Now()
	var start sync.Mutex
	var all sync.WaitGroup
	for n := range machines {
		all.Go(func() {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				s := newMachineSale(t)
				// rapid reads the seed before the first run; until then nobody changes it.
				start.Lock()
				read := sync.OnceFunc(start.Unlock)
				defer read()
				must(t, flag.Set("rapid.seed", fmt.Sprint(seed+uint64(n)<<32)))
				rapid.Check(t, func(rt *rapid.T) {
					read()
					runs.Add(1)
					steps.Add(int64(s.run(rt)))
				})
			})
		})
	}
	all.Wait()
	t.Logf("%d steps in %d runs of %d machines in %s; seed %d", steps.Load(), runs.Load(), machines, time.Since(began).Round(time.Millisecond), seed)
}

// machineSeed is the seed that was asked for, or any.
func machineSeed() uint64 {
	var seed uint64
	_, _ = fmt.Sscan(flag.Lookup("rapid.seed").Value.String(), &seed)
	if seed == 0 {
		seed = uint64(rand.Uint32())
	}
	return seed
}

// machine is one run.
type machine struct {
	s        *machineSale
	sales    []*modelSale
	payments []*modelPayment
	holds    []*consumer.Hold
	steps    int
	newest   int                         // worker that took the partition last; -1: a replay
	before   map[string]admission.Status // by order id, as the last look saw them
	soldOut  bool                        // somebody was told so: nodes may remember it
}

// run makes one run and returns how many steps it had.
func (s *machineSale) run(t *rapid.T) int {
	m := &machine{s: s, holds: make([]*consumer.Hold, len(s.workers)), before: map[string]admission.Status{}}
	s.runs++
	for n := range rapid.IntRange(1, 2).Draw(t, "sales") {
		m.begin(t, fmt.Sprintf("r%d_%d", s.runs, n), n == 0)
	}
	defer func() {
		for n := range m.holds {
			m.drop(n)
		}
	}()
	actions := rapid.StateMachineActions(m)
	// What happens more often than the rest.
	for name, more := range map[string]func(*rapid.T){"Ask": m.Ask, "Settle": m.Settle, "Pay": m.Pay} {
		actions[name+" "], actions[name+"  "] = more, more
	}
	for name, do := range actions {
		if name != "" {
			actions[name] = func(t *rapid.T) { do(t); m.steps++ }
		}
	}
	t.Repeat(actions)
	m.finish(t)
	return m.steps
}

// begin opens a sale.
func (m *machine) begin(t *rapid.T, id string, window bool) {
	a := &modelSale{id: id, window: window}
	as := admission.Activity{ID: id}
	if window {
		as.PaymentWindow = time.Hour
	}
	for n := range 2 {
		s := &modelSKU{id: fmt.Sprint("s", n), total: rapid.Int64Range(0, 6).Draw(t, "total"), limit: rapid.Int64Range(1, 3).Draw(t, "limit")}
		a.skus = append(a.skus, s)
		as.SKUs = append(as.SKUs, units(s.id, s.total, s.limit))
	}
	_, err := m.s.ledger.Put(t.Context(), as)
	m.must(t, err)
	_, err = m.s.ledger.SetState(t.Context(), id, admission.Open)
	m.must(t, err)
	n, err := m.s.rebuild().Run(t.Context(), id)
	m.must(t, err)
	h := a.snapshot(n)
	a.fill(h)
	a.open(h)
	m.sales = append(m.sales, a)
}

func (m *machine) must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want compares an error's code with what it must be; empty: no error.
func (m *machine) want(t *rapid.T, what string, err error, want admission.Code) {
	t.Helper()
	if got := codeOf(err); got != want {
		t.Fatalf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func codeOf(err error) admission.Code {
	var p *admission.Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &p):
		return p.Code
	}
	return admission.AsProblem(err).Code
}

// until polls what only a broken system does not do.
func (m *machine) until(t *rapid.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (m *machine) sale(t *rapid.T) *modelSale { return rapid.SampledFrom(m.sales).Draw(t, "sale") }

// pick draws one of the orders that fit.
func (m *machine) pick(t *rapid.T, fits func(*modelOrder) bool) *modelOrder {
	var all []*modelOrder
	for _, a := range m.sales {
		for _, o := range a.orders {
			if fits(o) {
				all = append(all, o)
			}
		}
	}
	if len(all) == 0 {
		t.Skip()
	}
	return rapid.SampledFrom(all).Draw(t, "order")
}

func (m *machine) find(id string) *modelOrder {
	for _, a := range m.sales {
		if o := a.find(id); o != nil {
			return o
		}
	}
	return nil
}

// finish brings everything to rest and audits.
func (m *machine) finish(t *rapid.T) {
	for _, a := range m.sales {
		a.half = nil
		m.move(t, a, false, true)
		if !a.ready() {
			m.rebuilt(t, a)
		}
		m.sweep(t, a)
	}
	m.decideAllHeld(t)
	for _, p := range m.payments {
		for range 2 { // the first may place the order that the second finds
			if p.state == admission.PaymentPlacing {
				m.pay(t, p.id, p.order, p.amount)
				m.drain(t)
				m.decideAllHeld(t)
			}
		}
		if p.state == admission.PaymentPlacing {
			t.Fatalf("payment %s has no end", p.id)
		}
	}
	for _, a := range m.sales {
		m.sweep(t, a) // a rebuilt gate may have been asked for what was dead
	}
	m.Release(t)
	m.Check(t)
	for _, a := range m.sales {
		m.audit(t, a)
	}
}

func (m *machine) decideAllHeld(t *rapid.T) {
	for _, a := range m.sales {
		for _, o := range a.orders {
			if o.status == admission.Held {
				m.wantLetter(t, o)
				m.decideHeld(t, o)
			}
		}
	}
}

// wantLetter wants one dead letter of a held order: else no operator sees it.
func (m *machine) wantLetter(t *rapid.T, o *modelOrder) {
	letters, err := m.s.dead().Find(t.Context(), o.sale.id, func(l consumer.Letter) bool { return l.Order != nil && l.Order.ID == o.id })
	m.must(t, err)
	if len(letters) != 1 {
		t.Fatalf("order %s is held, and has %d dead letters", o.id, len(letters))
	}
}

func (m *machine) audit(t *rapid.T, a *modelSale) {
	audit := &consumer.Audit{Ledger: m.s.ledger, Gate: m.s.gate, Log: m.s.log, Dead: m.s.dead(), Activity: a.id, Wait: patience}
	report, err := audit.Run(t.Context())
	m.must(t, err)
	if !report.OK || !report.AtRest || report.Log.Backlog != 0 {
		t.Fatalf("the audit of %s: %+v; the gate: %+v", a.id, report, a.gate)
	}
	for _, sku := range report.Activities[0].SKUs {
		if *sku.GateStock != sku.Stock || sku.Undecided+sku.ReleaseDue != 0 {
			t.Fatalf("at rest the gate and the ledger differ: %+v", sku)
		}
	}
	// A closed sale is looked after no more, so many runs cost what few do.
	_, err = m.s.ledger.SetState(t.Context(), a.id, admission.Closed)
	m.must(t, err)
}
