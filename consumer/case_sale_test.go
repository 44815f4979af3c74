package consumer_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"seckill/admission"
)

// A unit-limit buyer sends 1000 requests at once, beside N-1 other buyers, stock N.
func TestCase01OneBuyerAThousandTimes(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	s.startWorker(workerOptions{})
	var asks []ask
	for i := range 1000 {
		asks = append(asks, one("a1", "greedy"))
		if i < 99 {
			asks = append(asks, one("a1", fmt.Sprint("buyer-", i)))
		}
	}
	answers := s.crowd(asks)
	wantCount(t, answers, map[string]int{"202": 100, "200": 999})
	ids := map[string]bool{}
	for i, a := range answers {
		if asks[i].user == "greedy" {
			ids[a.order] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("the buyer was told %d order ids, want one", len(ids))
	}
	s.books("a1", answers)
	wantCount(t, []answer{s.post(one("a1", "late"))}, map[string]int{"409 sold-out": 1})
}

// The worker is stopped, the sale sells out, the worker is started.
func TestCase05WorkersStopped(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 500, 1))
	answers := s.crowd(buyers("a1", 800))
	wantCount(t, answers, map[string]int{"202": 500, "409 sold-out": 300})
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders`); n != 500 {
		t.Errorf("%d rows, want one for each of 500 accepted orders", n)
	}
}

func buyers(activity string, n int) []ask {
	asks := make([]ask, n)
	for i := range asks {
		asks[i] = one(activity, fmt.Sprint("buyer-", i))
	}
	return asks
}

// Limit 2: three requests of 1 by one buyer; one request of 3.
func TestCase12LimitCountsUnits(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 2))
	s.startWorker(workerOptions{})
	first, second, third := s.post(one("a1", "u")), s.post(one("a1", "u")), s.post(one("a1", "u"))
	wantCount(t, []answer{first, second, third}, map[string]int{"202": 2, "409 limit-reached": 1})
	if first.order == second.order || len(third.orders) != 2 || third.orders[0] != second.order || third.orders[1] != first.order {
		t.Errorf("limit-reached names %v, want %s and %s", third.orders, second.order, first.order)
	}
	three := s.post(ask{activity: "a1", user: "v", body: `{"sku":"s1","quantity":3}`})
	wantCount(t, []answer{three}, map[string]int{"409 limit-reached": 1})
	if three.orders == nil || len(three.orders) != 0 {
		t.Errorf("limit-reached names %v for a buyer without orders, want an empty list", three.orders)
	}
	s.books("a1", []answer{first, second})
}

// 9007199254740992 and 9007199254740993 are one number as doubles.
func TestCase29LongUserIDs(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	var answers []answer
	users := []string{"9007199254740992", "9007199254740993", "Ünï cödé 买家", "a/b{c}|d:e", `q"uo\te`}
	for _, u := range users {
		answers = append(answers, s.post(one("a1", u)))
	}
	wantCount(t, answers, map[string]int{"202": len(users)})
	s.books("a1", answers)
	for i, u := range users {
		if n := queryInt(t, s, `select count(*) from orders where id = $1 and user_id = $2`, answers[i].order, u); n != 1 {
			t.Errorf("the ledger does not have order %s under the user id %q, byte by byte", answers[i].order, u)
		}
	}
}

// 50 parallel requests under one key; the same key with another body, and by
// another buyer.
func TestCase30IdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 5), units("s2", 100, 5))
	s.startWorker(workerOptions{})
	keyed := one("a1", "u")
	keyed.key = `k "1"/é`[:6]
	var asks []ask
	for range 50 {
		asks = append(asks, keyed)
	}
	answers := s.crowd(asks)
	wantCount(t, answers, map[string]int{"202": 1, "200": 49})
	for _, a := range answers {
		if a.order != answers[0].order {
			t.Fatalf("one key, two orders: %s and %s", a.order, answers[0].order)
		}
	}
	other := keyed
	other.body = `{"sku":"s1","quantity":2}`
	another := keyed
	another.body = `{"sku":"s2","quantity":1}`
	wantCount(t, []answer{s.post(other), s.post(another)}, map[string]int{"422 idempotency-mismatch": 2})
	stranger := keyed
	stranger.user = "v"
	own := s.post(stranger)
	if own.status != http.StatusAccepted || own.order == answers[0].order {
		t.Errorf("the same key of another buyer: %v, want an order of his own", own)
	}
	s.books("a1", append(answers, own))
	again := s.post(keyed)
	if again.status != http.StatusOK || again.order != answers[0].order || again.state != "confirmed" {
		t.Errorf("the key after the decision: %v %s, want 200, the same order, confirmed", again, again.state)
	}
}

// Two callers, one unit, 500 rounds. Postgres is slow, but nothing else is.
func TestCase10TwoCallersOneUnit(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{postgresURL: slowPostgres(t, 100*time.Millisecond)})
	const rounds = 500
	var skus []admission.SKU
	var asks []ask
	for i := range rounds {
		sku := fmt.Sprint("s", i)
		skus = append(skus, units(sku, 1, 1))
		for _, caller := range []string{"left", "right"} {
			asks = append(asks, ask{activity: "a1", user: fmt.Sprint(caller, i), body: fmt.Sprintf(`{"sku":%q}`, sku)})
		}
	}
	s.put("a1", admission.Activity{SKUs: skus})
	s.openGate("a1")
	s.startWorker(workerOptions{})
	// A node's first look at the sale is as slow as Postgres; that is not the case.
	eventually(t, "the node knows the sale", func() (bool, string) {
		a := s.get("/v1/activities/a1", "")
		return a.status == http.StatusOK, a.String()
	})
	answers := s.crowd(asks)
	wantCount(t, answers, map[string]int{"202": rounds, "409 sold-out": rounds})
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(distinct sku_id) from orders where status = 'confirmed'`); n != rounds {
		t.Errorf("%d of %d units have a live order", n, rounds)
	}
}
