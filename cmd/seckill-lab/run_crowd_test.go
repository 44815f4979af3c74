package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCrowdIsEverybodyAndTheirRepeats(t *testing.T) {
	const buyers, requests = 5000, 10_000
	c, err := newCrowd("a", "s1", buyers, requests, 1)
	if err != nil {
		t.Fatal(err)
	}
	asked := make([]int, buyers)
	early := 0 // repeats in the first tenth: they come soon, not after everybody had a turn
	for i, buyer := range c.order {
		if asked[buyer]++; asked[buyer] > 1 && i < requests/10 {
			early++
		}
	}
	if len(c.order) != requests || slices.Contains(asked, 0) {
		t.Errorf("%d requests, somebody never asks: %v", len(c.order), slices.Contains(asked, 0))
	}
	if most := slices.Max(asked); most < 3 || most > 20 {
		t.Errorf("the most impatient buyer asks %d times", most)
	}
	if early < requests/50 {
		t.Errorf("only %d repeats among the first %d requests", early, requests/10)
	}
	same, _ := newCrowd("a", "s1", buyers, requests, 1)
	other, _ := newCrowd("a", "s1", buyers, requests, 2)
	if !slices.Equal(c.order, same.order) || slices.Equal(c.order, other.order) {
		t.Error("the crowd does not depend on the seed alone")
	}
	for _, bad := range [][2]int{{0, 10}, {10, 9}, {-1, 1}} {
		if _, err := newCrowd("a", "s1", bad[0], bad[1], 1); err == nil {
			t.Errorf("a crowd of %d buyers with %d requests", bad[0], bad[1])
		}
	}
}

func TestCrowdRequests(t *testing.T) {
	c := &crowd{path: []byte("/p"), body: []byte("{}"), order: []uint32{7, 8, 7}}
	var r loadRequest
	for n, want := range []string{"/p {} buyer-7 ", "/p {} buyer-8 tap-of-buyer-8", "/p {} buyer-7 "} {
		c.fill(int64(n), &r)
		if got := fmt.Sprintf("%s %s %s %s", r.Path, r.Body, r.Buyer, r.Key); got != want {
			t.Errorf("request %d: %q, want %q", n, got, want)
		}
	}
}

func TestTally(t *testing.T) {
	tally := newTally(&crowd{order: []uint32{0, 1, 0, 1, 2, 3, 4, 5}})
	for n, a := range []loadAnswer{
		{Status: 202, OrderID: []byte("o0"), Done: time.Second},
		{Status: 202, OrderID: []byte("o1"), Done: 2 * time.Second},
		{Status: 200, OrderID: []byte("o0"), Done: 3 * time.Second},
		{Status: 200, OrderID: []byte("o0")}, // another buyer's
		{Status: 202, OrderID: []byte("o1")}, // given before
		{Status: 202},                        // none
		{Status: 503, OrderID: []byte("o6")},
		{Status: 409},
	} {
		a.N = int64(n)
		tally.heard(&a)
	}
	if tally.faulty != 3 || len(tally.faults) != 3 || !strings.Contains(tally.faults[0], "buyer-0 and to buyer-1") {
		t.Errorf("faults %q", tally.faults)
	}
	if len(tally.admitted) != 2 || len(tally.repeated) != 1 || len(tally.unknown) != 1 ||
		tally.accepted.Load() != 4 || tally.refused.Load() != 1 || tally.answers.Load() != 8 {
		t.Errorf("%+v", tally)
	}
}

// soldTwo is a clean sale of two units, to be spoilt.
func soldTwo() (*audit, []bookedOrder, *tally) {
	tally := newTally(&crowd{})
	tally.admitted = map[string]uint32{"o1": 1, "o2": 2}
	tally.repeated = map[string]uint32{"o1": 1}
	return &audit{total: 2}, []bookedOrder{
		{id: "o1", user: "buyer-1", status: "confirmed", quantity: 1},
		{id: "o2", user: "buyer-2", status: "paid", quantity: 1},
		{id: "o3", user: "buyer-3", status: "rejected", quantity: 1},
	}, tally
}

func TestAuditFindsWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(a *audit, orders *[]bookedOrder, t *tally)
	}{
		{"", func(*audit, *[]bookedOrder, *tally) {}},
		{"oversold", func(a *audit, _ *[]bookedOrder, _ *tally) { a.total, a.stock = 1, -1; a.gate = -1 }},
		{"stock: total 3", func(a *audit, _ *[]bookedOrder, _ *tally) { a.total = 3 }},
		{"stranded", func(a *audit, _ *[]bookedOrder, _ *tally) { a.gate = 1 }},
		{"buyer-1 has 2 units", func(_ *audit, orders *[]bookedOrder, t *tally) {
			(*orders)[1].user = "buyer-1"
			t.admitted["o2"] = 1
		}},
		{"lost: buyer-9 got 202", func(_ *audit, _ *[]bookedOrder, t *tally) { t.admitted["o9"] = 9 }},
		{"lost: buyer-9 got 200", func(_ *audit, _ *[]bookedOrder, t *tally) { t.repeated["o9"] = 9 }},
		{"has it for buyer-1", func(_ *audit, _ *[]bookedOrder, t *tally) { t.repeated["o1"] = 7 }},
		{"two rows", func(_ *audit, orders *[]bookedOrder, _ *tally) { (*orders)[2].id = "o1" }},
		{"202 and rejected", func(_ *audit, _ *[]bookedOrder, t *tally) { t.admitted["o3"] = 3 }},
		{"is held", func(a *audit, orders *[]bookedOrder, _ *tally) { (*orders)[2].status = "held" }},
		{"status \"odd\"", func(a *audit, orders *[]bookedOrder, _ *tally) { (*orders)[2].status = "odd" }},
	} {
		a, orders, tally := soldTwo()
		c.spoil(a, &orders, tally)
		a.judgeBooks(1, orders)
		a.judgeAnswers(orders, tally)
		if found := strings.Join(a.violations, "\n"); a.clean() != (c.want == "") || !strings.Contains(found, c.want) {
			t.Errorf("found %q, want %q", found, c.want)
		}
	}
}
