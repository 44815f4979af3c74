package consumer_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"seckill/admission"
	"seckill/consumer"
)

// change asks for a change of the stock of a1/s1.
func (s *sale) change(delta int64, key string) (int64, consumer.DeltaState, error) {
	return s.ledger.ChangeStock(s.t.Context(), consumer.StockDelta{Activity: "a1", SKU: "s1", Delta: delta, Key: key})
}

func (s *sale) mustChange(delta int64, want consumer.DeltaState) int64 {
	s.t.Helper()
	number, state, err := s.change(delta, "")
	must(s.t, err)
	if state != want {
		s.t.Fatalf("a change by %+d is %s, want %s", delta, state, want)
	}
	return number
}

// becomes waits until a change has been decided.
func (s *sale) becomes(number int64, want consumer.DeltaState) {
	s.t.Helper()
	eventually(s.t, "the change is "+string(want), func() (bool, string) {
		state, err := s.ledger.DeltaState(s.t.Context(), number)
		return err == nil && state == want, fmt.Sprint(state, err)
	})
}

// Units are not taken away while orders that have them are undecided: each was answered
// with 202 and would be rejected for them.
func TestRule20TakingWaitsForWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.crowd(buyers("a1", 6))
	wantCount(t, answers, map[string]int{"202": 6})
	number, state, err := s.change(-5, "")
	must(t, err)
	if state != consumer.DeltaWaiting {
		t.Errorf("5 of 10 units, 6 of them admitted and undecided, are taken away: %s", state)
	}
	s.startWorker(workerOptions{})
	s.becomes(number, consumer.DeltaRefused)
	s.books("a1", answers)
	s.becomes(s.mustChange(-4, consumer.DeltaWaiting), consumer.DeltaApplied)
	s.books("a1", answers)
	if a, err := s.ledger.Activity(t.Context(), "a1"); err != nil || a.SKUs[0].Total != 6 || a.Taking {
		t.Errorf("4 of 10 units taken away: %+v %v", a, err)
	}
	wantCount(t, []answer{s.post(one("a1", "late"))}, map[string]int{"409 sold-out": 1})
}

// The gate takes the newest version of a total, once: calls that come twice, late or
// under another epoch change nothing; and a change whose caller died is brought.
func TestRule20TotalsAreLevelTriggered(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	var at []admission.Activity
	for range 2 {
		s.mustChange(5, consumer.DeltaApplied)
		a, err := s.ledger.Activity(t.Context(), "a1")
		must(t, err)
		at = append(at, a)
	}
	for i, a := range []admission.Activity{at[1], at[0], at[1]} {
		must(t, s.gate.SetTotals(t.Context(), a))
		if got := s.stock(); got != 20 {
			t.Errorf("call %d left %d units, want 20", i, got)
		}
	}
	s.mustChange(1, consumer.DeltaApplied) // and the caller dies
	wrong := at[1]
	wrong.Epoch++
	wrong.SKUs[0].Version += 10
	wantNotReady(t, "set_total of another epoch", s.gate.SetTotals(t.Context(), wrong))
	if r := s.audit("a1", 0); !r.OK || r.AtRest {
		t.Errorf("a change on its way to the gate is no violation, and no rest: %+v", r)
	}
	s.startSweep()
	eventually(t, "the gate has the units", func() (bool, string) { return s.stock() == 21, fmt.Sprint(s.stock()) })
	if r := s.audit("a1", 0); !r.OK || !r.AtRest {
		t.Errorf("after the change is brought: %+v", r)
	}
}

// A change that is committed while the gate is closed is in the next one, once.
func TestRule20RebuildKnowsTheTotal(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startSweep()
	rebuilt := make(chan error, 1)
	go func() { _, err := s.rebuild().Run(t.Context(), "a1"); rebuilt <- err }()
	s.mustChange(5, consumer.DeltaApplied)
	must(t, <-rebuilt)
	s.mustChange(2, consumer.DeltaApplied)
	eventually(t, "the gate has the units", func() (bool, string) { return s.stock() == 17, fmt.Sprint(s.stock()) })
	s.books("a1", nil)
}

// A change is done once under its key, a refused one is asked anew; held orders are not
// free units; totals stay within bounds; drafts change at once, closed sales not at all.
func TestStockDelta(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.put("a1", admission.Activity{SKUs: []admission.SKU{units("s1", 10, 5)}})
	refused := func(delta int64, key string, want error) {
		t.Helper()
		if _, _, err := s.change(delta, key); !errors.Is(err, want) {
			t.Errorf("a change by %+d under %q: %v, want: %v", delta, key, err, want)
		}
	}
	refused(-11, "", consumer.ErrNotEnough)
	refused(consumer.MostUnits-9, "", consumer.ErrTooMany)
	s.mustChange(-3, consumer.DeltaApplied)
	s.mustChange(3, consumer.DeltaApplied)
	s.openGate("a1")
	first, _, err := s.change(4, "k")
	must(t, err)
	again, state, err := s.change(4, "k")
	must(t, err)
	if again != first || state != consumer.DeltaApplied {
		t.Errorf("the same key: change %d, then %d, %s", first, again, state)
	}
	refused(5, "k", consumer.ErrDeltaKey)
	if _, _, err := s.ledger.ChangeStock(t.Context(), consumer.StockDelta{Activity: "a1", SKU: "s9", Delta: 1}); !errors.Is(err, consumer.ErrNoSKU) {
		t.Errorf("a SKU that is not there: %v", err)
	}

	o := order("u")
	o.Quantity = 4
	o = s.reserve(s.epoch(), o).Reservation.Order
	_, err = s.ledger.Hold(t.Context(), s.take(), delivery(s.epoch(), 1, o)[0], errors.New("poison"))
	must(t, err)
	taken, _, err := s.change(-11, "t")
	must(t, err)
	_, err = s.rebuild().Run(t.Context(), "a1")
	must(t, err)
	s.becomes(taken, consumer.DeltaRefused)
	if anew, state, err := s.change(-11, "t"); err != nil || anew != taken || state != consumer.DeltaWaiting {
		t.Errorf("a refused change, asked anew: %d %s %v", anew, state, err)
	}
	rest := s.mustChange(-10, consumer.DeltaWaiting)
	_, err = s.rebuild().Run(t.Context(), "a1")
	must(t, err)
	s.becomes(rest, consumer.DeltaApplied)
	if got := s.stock(); got != 0 {
		t.Errorf("all free units are taken and the gate has %d", got)
	}
	left := s.mustChange(-1, consumer.DeltaWaiting)
	_, err = s.ledger.SetState(t.Context(), "a1", admission.Closed)
	must(t, err)
	s.becomes(left, consumer.DeltaRefused)
	refused(1, "", consumer.ErrClosed)
	refused(-11, "t", consumer.ErrClosed)
	if _, state, err := s.change(4, "k"); err != nil || state != consumer.DeltaApplied {
		t.Errorf("the key of a change before the close: %s %v", state, err)
	}
}

// Point 41. An operator changes the stock during a sale, in both directions: nothing
// that was answered with 202 is rejected, nothing is stranded, and at the end exactly
// the total is sold.
func TestPoint41StockChangedDuringASale(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	s.startWorker(workerOptions{})
	s.startSweep()
	var mu sync.Mutex
	var answers []answer
	var over atomic.Bool
	var crowd sync.WaitGroup
	for c := range 4 {
		crowd.Go(func() {
			for i := 0; !over.Load(); i++ {
				a := s.post(one("a1", fmt.Sprint("buyer", c, "-", i)))
				mu.Lock()
				answers = append(answers, a)
				mu.Unlock()
			}
		})
	}
	for range 3 {
		taking := s.mustChange(-20, consumer.DeltaWaiting)
		s.mustChange(50, consumer.DeltaApplied)
		eventually(t, "the change is decided", func() (bool, string) {
			state, err := s.ledger.DeltaState(t.Context(), taking)
			return err == nil && state != consumer.DeltaWaiting, fmt.Sprint(state, err)
		})
	}
	eventually(t, "all is sold", func() (bool, string) {
		a, err := s.ledger.Activity(t.Context(), "a1")
		return err == nil && a.SKUs[0].Stock == 0 && a.SKUs[0].Live() > 0, fmt.Sprint(a.SKUs, err)
	})
	over.Store(true)
	crowd.Wait()
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders where status = 'rejected'`); n != 0 {
		t.Errorf("%d orders are rejected", n)
	}
	total := queryInt(t, s, `select 100 + sum(delta) from stock_deltas where state = 'applied'`)
	if live := queryInt(t, s, `select sum(quantity)::bigint from orders where status = 'confirmed'`); live != total {
		t.Errorf("%d units are sold, the total is %d", live, total)
	}
}
