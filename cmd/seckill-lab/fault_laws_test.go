package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// atRest is a clean sale of three units to two buyers, one of which is left, to be spoilt.
func atRest() (*books, *told) {
	b := &books{
		total: 3, stock: 1, limit: 1, epoch: 7,
		orders: []bookedOrder{
			{id: "o1", user: "buyer-1", status: "confirmed", quantity: 1},
			{id: "o2", user: "buyer-2", status: "paid", quantity: 1},
			{id: "o3", user: "buyer-3", status: "rejected", quantity: 1},
		},
		gate:    map[string]string{"state": "open", "epoch": "7"},
		records: map[string]string{"o1": "c", "o2": "c", "o3": "r"}, gateStock: 1,
		gateBuyers: map[string]int64{"buyer-1": 1, "buyer-2": 1},
		told:       map[string]string{"o1": "confirmed", "o2": "paid", "o3": "rejected"},
	}
	answers := &told{
		admitted: map[string]uint32{"o1": 1, "o2": 2}, repeated: map[string]uint32{"o1": 1},
	}
	return b, answers
}

// Every law is switched on: each way to break one turns the judge's finding red.
func TestEveryLawIsJudged(t *testing.T) {
	for _, c := range []struct {
		law   string // of the violations, or of the unrest
		spoil func(b *books, t *told)
	}{
		{"", func(*books, *told) {}},
		{"oversold", func(b *books, _ *told) { b.total, b.stock = 1, -1 }},
		{"ledger: total 4", func(b *books, _ *told) { b.total = 4 }},
		{"limit: buyer-1 has 2", func(b *books, _ *told) { b.orders[1].user = "buyer-1" }},
		{"decided twice", func(b *books, _ *told) { b.orders[2].id = "o1" }},
		{"lost: buyer-9 got 202", func(_ *books, t *told) { t.admitted["o9"] = 9 }},
		{"lost: buyer-9 got 200", func(_ *books, t *told) { t.repeated["o9"] = 9 }},
		{"o1 was given to buyer-5", func(_ *books, t *told) { t.admitted["o1"] = 5 }},
		{"o1 was shown to buyer-5", func(_ *books, t *told) { t.repeated["o1"] = 5 }},
		{"answered with 202 and is rejected", func(_ *books, t *told) { t.admitted["o3"] = 3 }},
		{"is held", func(b *books, t *told) { b.orders[2].status = "held"; t.admitted["o3"] = 3 }},
		{"answer: odd", func(_ *books, t *told) { t.faults = []string{"odd"} }},
		{"there is no gate", func(b *books, _ *told) { b.gate = nil }},
		{"the gate is closed", func(b *books, _ *told) { b.gate["state"] = "closed" }},
		{"the gate is of epoch 6", func(b *books, _ *told) { b.gate["epoch"] = "6" }},
		{"1 orders are pending", func(b *books, _ *told) { b.pending = 1 }},
		{"o1 is pending", func(b *books, _ *told) { b.records["o1"] = "p" }},
		{"stranded", func(b *books, _ *told) { b.gateStock = 0 }},
		{"charged order o4", func(b *books, _ *told) { b.records["o4"] = "c" }},
		{"charged order o3", func(b *books, _ *told) { b.records["o3"] = "c" }},
		{"has not charged it", func(b *books, _ *told) { delete(b.records, "o2") }},
		{"buyer-1 has 1 units in the ledger and 0", func(b *books, _ *told) { delete(b.gateBuyers, "buyer-1") }},
		{"buyer-8 has no unit in the ledger", func(b *books, _ *told) { b.gateBuyers["buyer-8"] = 1 }},
		{"2 changes of status wait", func(b *books, _ *told) { b.unpublished = 2 }},
		{"o3 is rejected, and the last event", func(b *books, _ *told) { delete(b.told, "o3") }},
		{"o2 is paid, and the last event", func(b *books, _ *told) { b.told["o2"] = "confirmed" }},
		{"to be given back", func(b *books, _ *told) { b.releaseDue = 1 }},
	} {
		b, told := atRest()
		c.spoil(b, told)
		v := judge(b, told)
		found := strings.Join(append(v.violations, v.unrest...), "\n")
		if (found == "") != (c.law == "") || !strings.Contains(found, c.law) {
			t.Errorf("found %q, want %q", found, c.law)
		}
	}
	b, told := atRest()
	told.admitted["o3"], told.rejectionAllowed = 3, true
	if v := judge(b, told); v.rejected != 1 || len(v.violations) > 0 {
		t.Errorf("an allowed rejection: %+v", v)
	}
}

// hear hands one answer to a crowd as the engine would.
func (b *buyers) hear(n int64, buyer uint32, status int, kind, id string) {
	b.asking[n] = buyer
	b.heard(&loadAnswer{N: n, Status: status, Kind: kind, OrderID: []byte(id)})
}

func TestBuyersAskUntilTheyKnow(t *testing.T) {
	b := newBuyers("a", "s1", 3, 1)
	over := false
	b.enough, b.start = func() { over = true }, time.Now()
	var r loadRequest
	for n := range int64(3) {
		b.fill(n, &r)
	}
	if got := fmt.Sprintf("%s %s %s %s", r.Path, r.Body, r.Buyer, r.Key); got != `/v1/activities/a/orders {"sku":"s1","quantity":1} buyer-2 tap-of-buyer-2` {
		t.Errorf("request %q", got)
	}
	b.hear(0, 0, 202, "202", "o0")
	b.hear(1, 1, 503, "503 outcome-unknown", "o1")
	b.hear(2, 2, 0, "", "")
	if b.known.Load() != 1 || len(b.again) != 2 || over {
		t.Fatalf("%d know, %d ask again", b.known.Load(), len(b.again))
	}
	asked := map[string]bool{}
	for n := int64(3); n < 5; n++ { // nobody new: who waits asks, early if need be
		b.fill(n, &r)
		asked[string(r.Buyer)] = true
	}
	if !asked["buyer-1"] || !asked["buyer-2"] {
		t.Errorf("%v asked again", asked)
	}
	b.hear(3, 1, 200, "200", "o1")
	b.hear(4, 2, 409, "409 sold-out", "")
	if b.known.Load() != 3 || !over || b.faulty > 0 {
		t.Errorf("%d know, over %v, faults %v", b.known.Load(), over, b.faults)
	}
}

func TestBuyersNoticeUntrueAnswers(t *testing.T) {
	for want, answers := range map[string]func(b *buyers){
		"given to buyer-0 and again":     func(b *buyers) { b.hear(0, 0, 202, "202", "o"); b.hear(1, 1, 202, "202", "o") },
		"with 200, to buyer-1":           func(b *buyers) { b.hear(0, 0, 202, "202", "o"); b.hear(1, 1, 200, "200", "o") },
		"was told of order o and then":   func(b *buyers) { b.hear(0, 0, 202, "202", "o"); b.hear(1, 0, 202, "202", "p") },
		"has order o and was told":       func(b *buyers) { b.hear(0, 0, 202, "202", "o"); b.hear(1, 0, 409, "409 sold-out", "") },
		"buyer-0 got 500":                func(b *buyers) { b.hear(0, 0, 500, "500", "") },
		"got 202 without an order id":    func(b *buyers) { b.hear(0, 0, 202, "202", "") },
		"":                               func(b *buyers) { b.hear(0, 0, 202, "202", "o"); b.hear(1, 0, 200, "200", "o") },
		"buyer-1 got 404 not-found":      func(b *buyers) { b.hear(0, 1, 404, "404 not-found", "") },
		"buyer-0 was told of order o an": func(b *buyers) { b.hear(0, 0, 200, "200", "o"); b.hear(1, 0, 200, "200", "p") },
	} {
		b := newBuyers("a", "s1", 2, 1)
		b.enough = func() {}
		answers(b)
		if found := strings.Join(b.faults, "\n"); (found == "") != (want == "") || !strings.Contains(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
}
