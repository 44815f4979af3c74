package consumer_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// poison makes orders of the buyer named poison impossible to settle until antidote.
func (s *sale) poison() {
	s.t.Helper()
	s.exec(`
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a rule of the shop'; end $$;
		create trigger poison before insert or update on orders for each row
		  when (new.user_id = 'poison' and new.status <> 'held') execute function refuse()`)
}

func (s *sale) antidote() {
	s.t.Helper()
	s.exec(`drop trigger poison on orders`)
}

func (s *sale) dead() *consumer.DeadLetters {
	return consumer.ReadDeadLetters(s.log.JetStream(), s.namespace)
}

func (s *sale) desk() *consumer.Desk {
	return &consumer.Desk{Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: s.dead(), Logger: s.logger}
}

func (s *sale) letters() []consumer.Letter {
	s.t.Helper()
	found, err := s.dead().Find(s.t.Context(), "", func(consumer.Letter) bool { return true })
	must(s.t, err)
	return found
}

// held waits until an order is held and has its one dead letter.
func (s *sale) held(id string) {
	s.t.Helper()
	eventually(s.t, "the order is held", func() (bool, string) {
		n := 0
		for _, l := range s.letters() {
			if l.Order != nil && l.Order.ID == id {
				n++
			}
		}
		held := queryInt(s.t, s, `select count(*) from orders where id = $1 and status = 'held'`, id)
		return n == 1 && held == 1, s.get("/v1/activities/a1/orders/"+id, "poison").body
	})
}

// heldSale is a sale of 5 units in which the order of the buyer named poison is held
// and two others are confirmed.
func heldSale(t *testing.T) (*sale, answer) {
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 5, 2))
	s.poison()
	two := ask{activity: "a1", user: "poison", body: `{"sku":"s1","quantity":2}`}
	answers := s.crowd([]ask{one("a1", "u1"), two, one("a1", "u2")})
	wantCount(t, answers, map[string]int{"202": 3})
	s.startWorker(workerOptions{})
	s.held(answers[1].order)
	return s, answers[1]
}

func (s *sale) wantClean(sold int64) {
	s.t.Helper()
	r := s.audit("a1", 30*time.Second)
	if sku := r.Activities[0].SKUs[0]; !r.OK || !r.AtRest || sku.Live != sold || r.Log.Dead != 0 {
		s.t.Errorf("want clean books with %d units sold and no dead letter: %+v", sold, r)
	}
}

// A held order counts as undecided until an operator drops it; then its units are
// sold again, and who did it why is on record.
func TestHeldOrderIsDropped(t *testing.T) {
	t.Parallel()
	s, held := heldSale(t)
	r := s.audit("a1", 30*time.Second)
	if sku := r.Activities[0].SKUs[0]; !r.OK || !r.AtRest || sku.Undecided != 2 || sku.Live != 2 || r.Log.Dead != 1 {
		t.Errorf("a held order: %+v", r)
	}
	if a := s.get(held.location, "poison"); a.state != "held" {
		t.Errorf("the buyer is told %s", a.body)
	}
	if l := s.letters()[0]; l.Deliveries != 1 || l.Seq == 0 || l.Reason != "unsettleable" || !strings.Contains(l.Detail, "a rule of the shop") {
		t.Errorf("dead letter: %+v", l)
	}
	ctx := consumer.OnBehalf(t.Context(), consumer.Operator{Name: "ann", Reason: "refunded"})
	got, err := s.desk().Drop(ctx, held.order)
	if err == nil { // the trigger refuses this too
		t.Errorf("dropped although the ledger refuses: %+v", got)
	}
	s.antidote()
	got, err = s.desk().Drop(ctx, held.order)
	if err != nil || got.Result != "decided" || got.Status != admission.Rejected || got.Reason != admission.ReasonDropped {
		t.Errorf("dropped: %+v, %v", got, err)
	}
	if got, err = s.desk().Drop(ctx, held.order); err != nil || got.Result != "already" {
		t.Errorf("dropped again: %+v, %v", got, err)
	}
	if s.due() != 0 {
		t.Error("the release is still due although the gate was told")
	}
	s.wantClean(2)
	if n := queryInt(t, s, `select count(*) from activity_log where subject = $1 and actor = 'ann' and reason = 'refunded'`, held.order); n != 1 {
		t.Errorf("%d entries in the activity log, want 1", n)
	}
	wantCount(t, s.crowd([]ask{one("a1", "u3"), one("a1", "u4"), one("a1", "poison")}), map[string]int{"202": 3})
	s.wantClean(5)
}

// The gate is away when an order is dropped: the release job brings it later.
func TestDropBesideAnAbsentGate(t *testing.T) {
	t.Parallel()
	s, held := heldSale(t)
	s.antidote()
	for _, what := range []string{"gate", "stock", "orders", "buyers", "keys", "pending"} {
		must(t, s.redis.Del(t.Context(), s.gateKey("a1", what)).Err())
	}
	if _, err := s.desk().Drop(t.Context(), held.order); err != nil {
		t.Fatal(err)
	}
	if s.due() != 1 {
		t.Error("the release is not due although no gate was told")
	}
	s.openGate("a1")
	must(t, s.release().Round(t.Context()))
	if s.due() != 0 {
		t.Error("the release is due although a newer gate was filled without the order")
	}
	s.wantClean(2)
}

// A held order is decided at an operator's word, whatever its epoch: here its gate was
// rebuilt meanwhile. What still cannot be settled stays held.
func TestHeldOrderIsReplayed(t *testing.T) {
	t.Parallel()
	s, held := heldSale(t)
	if got, err := s.desk().Replay(t.Context(), held.order); err == nil {
		t.Errorf("replayed although the ledger refuses: %+v", got)
	}
	s.held(held.order)
	s.antidote()
	s.openGate("a1")
	got, err := s.desk().Replay(t.Context(), held.order)
	if err != nil || got.Result != "decided" || got.Status != admission.Confirmed {
		t.Errorf("replayed: %+v, %v", got, err)
	}
	if got, err = s.desk().Replay(t.Context(), held.order); err != nil || got.Result != "already" || got.Status != admission.Confirmed {
		t.Errorf("replayed again: %+v, %v", got, err)
	}
	if a := s.get(held.location, "poison"); a.state != "confirmed" || strings.Contains(a.body, "reason") {
		t.Errorf("the buyer is told %s", a.body)
	}
	s.wantClean(4)
}

// A replayed order that the ledger has to reject gives its units back, also when a
// rebuild had counted it, so that it is not pending at the gate.
func TestReplayedOrderIsRejected(t *testing.T) {
	t.Parallel()
	s, held := heldSale(t)
	s.antidote()
	s.openGate("a1")
	s.exec(`update skus set limit_per_user = 1`)
	got, err := s.desk().Replay(t.Context(), held.order)
	if err != nil || got.Status != admission.Rejected || got.Reason != admission.ReasonLimit {
		t.Errorf("replayed: %+v, %v", got, err)
	}
	s.wantClean(2)
}

// A log message that cannot be read is read again, or dropped.
func TestUnreadableLetters(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 5, 1))
	s.startWorker(workerOptions{})
	answers := []answer{s.post(one("a1", "u1"))}
	s.books("a1", answers)
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)

	// Orders that only a later release can read.
	b := admission.NewBatch("a1", a.Epoch)
	b.Orders = []admission.Order{{ID: admission.NewID(), User: "u2", SKU: "s1", Quantity: 1, At: time.Now().UTC()}}
	_, err = s.gate.Reserve(t.Context(), "a1", a.Epoch, 1000, b.Orders)
	must(t, err)
	readable, err := json.Marshal(b)
	must(t, err)
	from := consumer.Delivery{Seq: 7, Deliveries: 3}
	must(t, s.dead().Broken(t.Context(), consumer.Unreadable{From: from, Data: readable, Why: errors.New("of version 2")}))
	must(t, s.dead().Broken(t.Context(), consumer.Unreadable{From: from, Data: []byte("{"), Why: errors.New("no JSON")}))
	must(t, s.dead().Broken(t.Context(), consumer.Unreadable{From: from, Data: []byte("{"), Why: errors.New("no JSON")}))
	letters := s.letters()
	if len(letters) != 2 || letters[0].Deliveries != 3 {
		t.Fatalf("dead letters: %+v", letters)
	}
	if got, err := s.desk().Replay(t.Context(), letters[1].ID()); err == nil {
		t.Errorf("read again: %+v", got)
	}
	if got, err := s.desk().Replay(t.Context(), letters[0].ID()); err != nil || got.Result != "appended" {
		t.Errorf("read again: %+v, %v", got, err)
	}
	if got, err := s.desk().Drop(t.Context(), letters[1].ID()); err != nil || got.Result != "removed" {
		t.Errorf("dropped: %+v, %v", got, err)
	}
	if _, err := s.desk().Drop(t.Context(), letters[1].ID()); !errors.Is(err, consumer.ErrNoLetter) {
		t.Errorf("dropped again: %v", err)
	}
	if _, err := s.desk().Drop(t.Context(), admission.NewID()); !errors.Is(err, consumer.ErrNoLetter) {
		t.Errorf("an unknown order: %v", err)
	}
	s.wantClean(2)
}
