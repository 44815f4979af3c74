package consumer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"seckill/admission"
)

// The tests TestRule01… hold the model-checked rules of ARCHITECTURE.md one by one:
// each is the counterexample that the rule excludes.

func order(user string) admission.Order {
	return admission.Order{ID: admission.NewID(), User: user, SKU: "s1", Quantity: 1}
}

func (s *sale) epoch() int64 {
	s.t.Helper()
	a, err := s.ledger.Activity(s.t.Context(), "a1")
	must(s.t, err)
	return a.Epoch
}

func (s *sale) stock() int64 {
	s.t.Helper()
	view, err := s.gate.View(s.t.Context(), "a1")
	must(s.t, err)
	return view.Stock["s1"]
}

// reserve asks the gate as a node does that dies before it appends.
func (s *sale) reserve(epoch int64, o admission.Order) admission.Verdict {
	s.t.Helper()
	verdicts, err := s.gate.Reserve(s.t.Context(), "a1", epoch, 1_000_000, []admission.Order{o})
	must(s.t, err)
	return verdicts[0]
}

// Every script acts only on an open gate of exactly the caller's epoch.
func TestRule02ScriptsCarryTheEpoch(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	e, o := s.epoch(), order("u")
	s.reserve(e, o)
	refused := func(when string) {
		t.Helper()
		for _, wrong := range []int64{e - 1, e + 1} {
			_, err := s.gate.Reserve(t.Context(), "a1", wrong, 100, []admission.Order{order("v")})
			wantNotReady(t, when+": reserve", err)
			wantNotReady(t, when+": settle", s.gate.Settle(t.Context(), "a1", wrong, []admission.Outcome{{ID: o.ID}}))
			wantNotReady(t, when+": set_sale", s.gate.SetSale(t.Context(), admission.Activity{ID: "a1", Epoch: wrong, State: admission.Closed, Revision: 99}))
		}
	}
	refused("open")
	if got := s.stock(); got != 9 {
		t.Errorf("calls of another epoch changed the stock to %d", got)
	}
	must(t, s.gate.Close(t.Context(), "a1", e+1))
	refused("closed")
	if got := s.stock(); got != 9 {
		t.Errorf("calls to a closed gate changed the stock to %d", got)
	}
}

func wantNotReady(t *testing.T, what string, err error) {
	t.Helper()
	var notReady *admission.NotReadyError
	if !errors.As(err, &notReady) {
		t.Errorf("%s: %v, want not ready", what, err)
	}
}

// Reserving is idempotent by order id, and answers in the order: this order, its key,
// limit, stock.
func TestRule05ReserveIsIdempotent(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 3, 2))
	e, o, plain := s.epoch(), order("u"), order("t")
	o.Key = "k"
	for range 3 { // the reply was lost twice
		for _, o := range []admission.Order{o, plain} {
			if v := s.reserve(e, o); v.Kind != admission.VerdictReserved || v.Reservation.ID != o.ID {
				t.Fatalf("resent reserve: %+v", v)
			}
		}
	}
	if got := s.stock(); got != 1 {
		t.Fatalf("three runs of two orders took %d units, want two", 3-got)
	}
	sameKey := order("u")
	sameKey.Key = "k"
	if v := s.reserve(e, sameKey); v.Kind != admission.VerdictKnown || v.Reservation.ID != o.ID {
		t.Errorf("the same key: %+v, want order %s", v, o.ID)
	}
	big := order("u")
	big.Quantity = 2
	if v := s.reserve(e, big); v.Kind != admission.VerdictLimit {
		t.Errorf("over the limit and over the stock: %+v, want limit first", v)
	}
	s.reserve(e, order("v"))
	if v := s.reserve(e, order("w")); v.Kind != admission.VerdictSoldOut {
		t.Errorf("no stock: %+v", v)
	}
	must(t, s.gate.Settle(t.Context(), "a1", e, []admission.Outcome{{ID: o.ID}}))
	if v := s.reserve(e, o); v.Kind != admission.VerdictKnown || v.Reservation.State != admission.Released {
		t.Errorf("a released order asked again: %+v, want its mark, no second reservation", v)
	}
}

// An outcome acts by order id, once; of an unknown or released order it changes
// nothing.
func TestRule13OutcomesActOnce(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	e, first, second := s.epoch(), order("u"), order("u")
	s.reserve(e, first)
	s.reserve(e, second)
	dead := func(id string) {
		t.Helper()
		must(t, s.gate.Settle(t.Context(), "a1", e, []admission.Outcome{{ID: id}}))
	}
	live := func(id string) {
		t.Helper()
		must(t, s.gate.Settle(t.Context(), "a1", e, []admission.Outcome{{ID: id, Live: true}}))
	}
	dead(admission.NewID())
	live(admission.NewID())
	if got := s.stock(); got != 8 {
		t.Errorf("outcomes of unknown orders changed the stock to %d, want 8", got)
	}
	dead(first.ID)
	dead(first.ID)
	live(first.ID)
	dead(first.ID)
	if got := s.stock(); got != 9 {
		t.Errorf("one dead order, told three times, left %d units, want 9", got)
	}
	live(second.ID)
	live(second.ID)
	r, ok, err := s.gate.Find(t.Context(), "a1", second.ID)
	must(t, err)
	if !ok || r.State != admission.Charged {
		t.Errorf("the buyer's other order is %+v, want confirmed", r)
	}
	dead(second.ID) // cancelled later
	if got := s.stock(); got != 10 {
		t.Errorf("%d units after both are dead, want 10", got)
	}
}

// A rebuild is refused at a gate that a newer one has closed, and may fill and open
// only what was closed under its own number.
func TestRule21And24StepsOfARebuildCarryItsNumber(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	ctx, e := t.Context(), s.epoch()
	snapshot := func(n int64) admission.Snapshot {
		a, err := s.ledger.Activity(ctx, "a1")
		must(t, err)
		a.Epoch = n
		return admission.Snapshot{Activity: a}
	}
	server, err := s.gate.Server(ctx, "a1")
	must(t, err)
	superseded := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, admission.ErrSuperseded) {
			t.Errorf("%s: %v, want superseded", what, err)
		}
	}
	superseded("fill of an open gate", s.gate.Fill(ctx, e, snapshot(e)))
	must(t, s.gate.Close(ctx, "a1", e+2))
	superseded("close with an older number", s.gate.Close(ctx, "a1", e+1))
	superseded("fill with an older number", s.gate.Fill(ctx, e+1, snapshot(e+1)))
	superseded("open without a fill", s.gate.Open(ctx, e+2, snapshot(e+2), server))
	must(t, s.gate.Fill(ctx, e+2, snapshot(e+2)))
	superseded("open with an older number", s.gate.Open(ctx, e+1, snapshot(e+1), server))
	missing := snapshot(e + 2)
	missing.Rows = make([]admission.Row, 1)
	superseded("open with a record missing", s.gate.Open(ctx, e+2, missing, server))
	superseded("open on another server than the fill's", s.gate.Open(ctx, e+2, snapshot(e+2), "another"))
	must(t, s.gate.Open(ctx, e+2, snapshot(e+2), server))
	must(t, s.gate.Open(ctx, e+2, snapshot(e+2), server)) // resent
	if v := s.reserve(e+2, order("u")); v.Kind != admission.VerdictReserved {
		t.Errorf("the new gate answers %+v", v)
	}
}

// Everything that makes a gate wrong is a reason to rebuild it.
func TestRule25WhenARebuildIsNeeded(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	gate := s.namespace + ":{a1/0}:gate"
	needed := func(what string, want bool) {
		t.Helper()
		// A rebuild that has just begun is left alone for a while.
		exec(t, s, `update activities set updated_at = now() - interval '1 hour'`)
		why, err := s.rebuild().Needed(t.Context(), "a1")
		must(t, err)
		if (why != "") != want {
			t.Errorf("%s: %q", what, why)
		}
	}
	old := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
	reset := func() {
		exec(t, s, `update activities set suspect = '', epoch = `+old+`, last_epoch = `+old)
		server, err := s.gate.Server(t.Context(), "a1")
		must(t, err)
		must(t, s.redis.HSet(t.Context(), gate, "epoch", old, "state", "open", "server", server).Err())
	}
	reset()
	needed("a right gate", false)
	must(t, s.redis.HSet(t.Context(), gate, "state", "closed").Err())
	needed("left closed", true)
	reset()
	must(t, s.redis.HSet(t.Context(), gate, "epoch", "7").Err())
	needed("another epoch", true)
	reset()
	must(t, s.redis.HSet(t.Context(), gate, "server", "another").Err())
	needed("another server", true)
	reset()
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	must(t, s.ledger.Suspect(t.Context(), "a1", a.Epoch, "found by an audit"))
	needed("suspect", true)
	reset()
	must(t, s.redis.Del(t.Context(), gate).Err())
	needed("absent", true)
	exec(t, s, `update activities set state = 'closed'`)
	needed("absent, of a closed sale", false)
}

// A gate that was filled on another server, or on another line of its data, may be an
// old copy of itself: the scripts do not believe it.
func TestRule25OtherServerAdmitsNobody(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	e, o := s.epoch(), order("u")
	s.reserve(e, o)
	must(t, s.redis.HSet(t.Context(), s.namespace+":{a1/0}:gate", "server", "another").Err())
	_, err := s.gate.Reserve(t.Context(), "a1", e, 100, []admission.Order{order("v")})
	wantNotReady(t, "reserve", err)
	wantNotReady(t, "settle", s.gate.Settle(t.Context(), "a1", e, []admission.Outcome{{ID: o.ID}}))
	if got := s.stock(); got != 9 {
		t.Errorf("%d units, want 9", got)
	}
	wantCount(t, []answer{s.post(one("a1", "w"))}, map[string]int{"503 not-ready": 1})
}
