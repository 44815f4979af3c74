package consumer_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/admission"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// Point 1. A node dies before the gate was asked: nothing has happened anywhere. Red if
// a node counts, promises or appends anything by itself.
func TestPoint01DiesBeforeTheGate(t *testing.T) {
	t.Parallel()
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.Redis), func(piece []byte) fate {
		if bytes.Contains(bytes.ToLower(piece), []byte("eval")) {
			return swallow
		}
		return forward
	}, nil)
	s := newSale(t, saleOptions{redisURL: "redis://" + lossy.address})
	s.open("a1", units("s1", 10, 1))
	n, die := s.node(admission.Config{})
	lossy.on.Store(true)
	wantCount(t, []answer{n.post(one("a1", "u"))}, map[string]int{"503 outcome-unknown": 1})
	die()
	lossy.on.Store(false)
	if lossy.lost.Load() == 0 {
		t.Fatal("no script was swallowed: nothing was shown")
	}
	if s.stock() != 10 || s.lastSeq() != 0 {
		t.Errorf("a question that never arrived left %d units and %d log messages, want 10 and none", s.stock(), s.lastSeq())
	}
	again := s.post(one("a1", "u"))
	wantCount(t, []answer{again}, map[string]int{"202": 1})
	s.startWorker(workerOptions{})
	s.books("a1", []answer{again})
	s.decided(1, 1)
}

// Point 2. A node dies after the gate's yes and before the append: the order goes on,
// by its buyer's next question or by the sweep, under its id. Red if the reservation is
// given back, left pending, or made again.
func TestPoint02DiesBeforeTheAppend(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 2))
	e := s.epoch()
	var ids []string
	for _, user := range []string{"asks-again", "silent1", "silent2"} {
		o := order(user)
		o.Key = "k"
		s.reserve(e, o)
		ids = append(ids, o.ID)
	}
	keyed := one("a1", "asks-again")
	keyed.key = "k"
	again := s.post(keyed)
	if again.status != http.StatusOK || again.order != ids[0] {
		t.Errorf("the buyer asks again: %v, want 200 and order %s", again, ids[0])
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.books("a1", nil)
	s.decided(3, 3)
	if n := queryInt(t, s, `select count(*) from orders where id = any($1::uuid[]) and epoch = $2`, ids, e); n != 3 || s.stock() != 7 {
		t.Errorf("%d of the 3 reserved orders are decided under their epoch, %d units left, want 7", n, s.stock())
	}
}

// Point 3. The gate's reply is lost, once or for good: the script has run, and whoever
// asks again finds what it did. Red if a resent script takes a second unit, or if a
// missing reply is taken for a no.
func TestPoint03GatesReplyLost(t *testing.T) {
	t.Parallel()
	var lose atomic.Int64 // replies to lose; beyond counting: all
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.Redis), nil, func([]byte) fate {
		if lose.Add(-1) >= 0 {
			return breakConnection
		}
		return forward
	})
	s := newSale(t, saleOptions{redisURL: "redis://" + lossy.address})
	s.open("a1", units("s1", 10, 5))
	answers := s.oneByOne("first") // the node knows the sale from now on
	lossy.on.Store(true)
	lose.Store(1)
	answers = append(answers, s.post(one("a1", "once")))
	wantCount(t, answers, map[string]int{"202": 2})
	if lossy.lost.Load() != 1 || s.stock() != 8 {
		t.Errorf("%d replies lost, %d units left, want 1 and 8", lossy.lost.Load(), s.stock())
	}
	keyed := one("a1", "for good")
	keyed.key = "k"
	lose.Store(1 << 40)
	wantCount(t, []answer{s.post(keyed)}, map[string]int{"503 outcome-unknown": 1})
	lossy.on.Store(false)
	if s.stock() != 7 {
		t.Fatalf("%d units left: the script did not run, nothing was shown", s.stock())
	}
	again := s.post(keyed)
	if again.status != http.StatusOK || s.stock() != 7 {
		t.Errorf("asking again: %v, %d units left, want 200 and 7", again, s.stock())
	}
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(3, 3)
}

// Point 8. A node dies after the log's ack and before the 202: the order lives, and the
// next node tells it to the buyer who asks again. Red if the key does not lead to the
// order, or if its second append makes a second order.
func TestPoint08DiesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	first, die := s.node(admission.Config{})
	cut := newLossyProxy(t, strings.TrimPrefix(first.http.URL, "http://"), nil, func([]byte) fate { return breakConnection })
	cut.on.Store(true)
	req, err := http.NewRequest(http.MethodPost, "http://"+cut.address+"/v1/activities/a1/orders", strings.NewReader(`{"sku":"s1"}`))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User-ID", "u")
	req.Header.Set("Idempotency-Key", "k")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("answered with %d: nothing was shown", resp.StatusCode)
	}
	die()
	all := s.messages()
	if len(all) != 1 || len(all[0].Orders) != 1 {
		t.Fatalf("the log has %+v, want the order that was not answered", all)
	}
	keyed := one("a1", "u")
	keyed.key = "k"
	again := s.post(keyed)
	if id := all[0].Orders[0].ID; again.status != http.StatusOK || again.order != id {
		t.Errorf("another node tells %v, want 200 and order %s", again, id)
	}
	s.startWorker(workerOptions{})
	s.books("a1", nil)
	s.decided(1, 1)
	if s.stock() != 9 {
		t.Errorf("%d units left, want 9", s.stock())
	}
}

// Point 32. The clock of a node is wrong: reservations are dated, and become overdue,
// by Redis's clock alone. Red if a node's time reaches the gate or the log.
func TestPoint32WrongClockOfANode(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	from := s.now()
	ahead, behind := order("ahead"), order("behind")
	ahead.At, behind.At = from.Add(time.Hour), from.Add(-time.Hour)
	for _, o := range []admission.Order{ahead, behind} { // and the node dies
		if at := s.reserve(s.epoch(), o).Reservation.At; at.Before(from.Truncate(time.Millisecond)) || at.After(s.now()) {
			t.Errorf("reserved at %v by a node of the time %v, want Redis's, about %v", at, o.At, from)
		}
	}
	s.startSweep()
	s.books("a1", nil)
	s.decided(2, 2)
	if n := queryInt(t, s, `select count(*) from orders where created_at between $1 and $2`, from.Add(-time.Millisecond), s.now()); n != 2 {
		t.Errorf("%d of 2 rows have Redis's time of the reservation", n)
	}
}
