package consumer_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"seckill/admission"
)

// now is the clock that decides the window.
func (s *sale) now() time.Time {
	s.t.Helper()
	now, err := s.gate.Now(s.t.Context(), "a1")
	must(s.t, err)
	return now
}

// Requests in the second before the start: none admitted, nothing consumed.
func TestCase02BeforeTheStart(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	starts := s.now().Add(time.Hour).Truncate(time.Millisecond)
	s.put("a1", admission.Activity{StartsAt: starts, SKUs: []admission.SKU{units("s1", 10, 1)}})
	s.startWorker(workerOptions{})
	draft := s.post(one("a1", "u"))
	s.openGate("a1")
	answers := append(s.crowd(buyers("a1", 100)), draft)
	wantCount(t, answers, map[string]int{"409 not-started": 101})
	for _, a := range answers {
		if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 3600+5 {
			t.Fatalf("an hour before the start, Retry-After is %q", a.header.Get("Retry-After"))
		}
	}
	s.books("a1", answers)
	view, err := s.gate.View(t.Context(), "a1")
	must(t, err)
	if last, err := s.log.LastSeq(t.Context(), "a1"); err != nil || last != 0 || view.Stock["s1"] != 10 {
		t.Errorf("before the start the log has %d messages and the gate %d units (%v), want none and 10", last, view.Stock["s1"], err)
	}
}

// The same instant written with two zones opens at the same millisecond, and both
// edges of the window are exact: the last millisecond before is out, the first is
// in; the last of the sale is in, the end is out.
func TestCase31WindowToTheMillisecond(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	shanghai := time.FixedZone("", 8*60*60)
	starts := s.now().Add(2500 * time.Millisecond).Truncate(time.Millisecond)
	ends := starts.Add(time.Second)
	s.put("a1", admission.Activity{StartsAt: starts.In(shanghai), EndsAt: ends.UTC(), SKUs: []admission.SKU{units("s1", 1_000_000, 1)}})
	s.openGate("a1")

	// One buyer after another, straight at the gate, with its clock read before and
	// after: where both lie on one side of an edge, the verdict is known.
	activity, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	var before, inside, after int
	for i := 0; after < 20; i++ {
		from := s.now()
		order := admission.Order{ID: admission.NewID(), User: fmt.Sprint("u", i), SKU: "s1", Quantity: 1}
		verdicts, err := s.gate.Reserve(t.Context(), "a1", activity.Epoch, 1000000, []admission.Order{order})
		must(t, err)
		to, kind := s.now(), verdicts[0].Kind
		switch {
		case to.Before(starts):
			before++
			if kind != admission.VerdictNotStarted {
				t.Fatalf("verdict %d at %v, the start is %v", kind, to, starts)
			}
		case !from.Before(starts) && to.Before(ends):
			inside++
			if kind != admission.VerdictReserved {
				t.Fatalf("verdict %d between %v and %v, in the window from %v to %v", kind, from, to, starts, ends)
			}
		case !from.Before(ends):
			after++
			if kind != admission.VerdictEnded {
				t.Fatalf("verdict %d at %v, the end is %v", kind, from, ends)
			}
		}
		if kind == admission.VerdictReserved {
			if at := verdicts[0].Reservation.At; at.Before(starts) || !at.Before(ends) {
				t.Fatalf("admitted at %v, outside of %v to %v", at, starts, ends)
			}
		}
	}
	if before == 0 || inside == 0 {
		t.Fatalf("asked %d times before and %d times in the window: nothing was shown", before, inside)
	}
	wantCount(t, []answer{s.post(one("a1", "late"))}, map[string]int{"410 ended": 1})
}

// A buyer whose answer got lost learns the truth also when the sale is paused or has
// been closed meanwhile; who has no order is refused.
func TestTruthAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	keyed := one("a1", "keyed")
	keyed.key = "k"
	first := s.crowd([]ask{keyed, one("a1", "plain")})
	wantCount(t, first, map[string]int{"202": 2})
	for _, step := range []struct {
		state   admission.State
		refusal string
	}{{admission.Paused, "503 paused"}, {admission.Closed, "410 ended"}} {
		a, err := s.ledger.SetState(t.Context(), "a1", step.state)
		must(t, err)
		must(t, s.gate.SetSale(t.Context(), a))
		again := s.crowd([]ask{keyed, one("a1", "plain"), one("a1", "stranger")})
		wantCount(t, again, map[string]int{"200": 2, step.refusal: 1})
		if again[0].order != first[0].order || again[1].order != first[1].order {
			t.Errorf("%s: told %v and %v, want the orders of before", step.state, again[0], again[1])
		}
	}
	s.books("a1", first)
}
