package consumer_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/admission"
)

// reserveCounter counts runs of the script that reserves: the one of six keys that
// runs in an ordinary sale.
type reserveCounter struct{ n atomic.Int64 }

func (c *reserveCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *reserveCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *reserveCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 2 && cmd.Name() == "evalsha" && fmt.Sprint(args[2]) == "6" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// countReserves counts the node's runs of reserve.lua from here on.
func (s *sale) countReserves() *reserveCounter {
	c := new(reserveCounter)
	s.redis.AddHook(c)
	return c
}

// remembers waits until the node answers strangers by itself.
func (s *sale) remembers(c *reserveCounter, a ask) {
	s.t.Helper()
	asked := 0
	eventually(s.t, "sold out is answered from memory", func() (bool, string) {
		before := c.n.Load()
		for range 5 {
			asked++
			a.user = fmt.Sprint("stranger-", asked)
			switch got := s.post(a); {
			case got.status/100 == 5: // the machine is too busy for an answer in time
				return false, got.String()
			case got.code != "sold-out":
				s.t.Fatalf("a stranger was told %v", got)
			}
		}
		return c.n.Load() == before, fmt.Sprint(c.n.Load()-before, " of 5 asked the gate")
	})
}

// overridden wants the answer to a buyer who asks a second after the gate has changed,
// five times the promised bound: a memory that is still believed then was looked at
// after the change.
func (s *sale) overridden(a ask, want string) answer {
	s.t.Helper()
	<-time.After(time.Second)
	got := s.post(a)
	if text := fmt.Sprint(got.status, " ", got.code); text != want {
		s.t.Errorf("a second after the change, %s was told %q, want %q", a.user, text, want)
	}
	return got
}

// A unit came back and was sold again on another node, and the stock is 0 as before:
// the memory must not hold, since its set of buyers lacks the new one.
func TestRule28BuyersSinceTheMemory(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	e, first := s.epoch(), order("first")
	s.reserve(e, first)
	c := s.countReserves()
	s.remembers(c, one("a1", ""))
	must(t, s.gate.Settle(t.Context(), "a1", e, []admission.Outcome{{ID: first.ID}}))
	mine := order("mine")
	if v := s.reserve(e, mine); v.Kind != admission.VerdictReserved {
		t.Fatalf("the unit that came back: %+v", v)
	}
	got := s.overridden(one("a1", "mine"), "200 ")
	if got.order != mine.ID {
		t.Errorf("told %v, want order %s", got, mine.ID)
	}
}

// Whatever changes at the gate ends the memory: units that come back, in both ways, a
// pause, a close, the end by the gate's clock, a rebuild, a gate that is gone.
func TestRule28WhatEndsTheMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*testing.T, *sale, admission.Order)
		want   string
	}{
		{"a unit comes back", func(t *testing.T, s *sale, o admission.Order) {
			must(t, s.gate.Settle(t.Context(), "a1", s.epoch(), []admission.Outcome{{ID: o.ID}}))
		}, "202 "},
		{"units are added", func(t *testing.T, s *sale, _ admission.Order) {
			_, _, err := s.change(1, "")
			must(t, err)
			a, err := s.ledger.Activity(t.Context(), "a1")
			must(t, err)
			must(t, s.gate.SetTotals(t.Context(), a))
		}, "202 "},
		{"pause", func(t *testing.T, s *sale, _ admission.Order) { s.moves(admission.Paused) }, "503 paused"},
		{"close", func(t *testing.T, s *sale, _ admission.Order) { s.moves(admission.Closed) }, "410 ended"},
		{"closed for a rebuild", func(t *testing.T, s *sale, _ admission.Order) {
			must(t, s.gate.Close(t.Context(), "a1", s.epoch()+1))
		}, "503 not-ready"},
		{"the gate is gone", func(t *testing.T, s *sale, _ admission.Order) {
			must(t, s.redis.Del(t.Context(), s.namespace+":{a1/0}:gate").Err())
		}, "503 not-ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSale(t, saleOptions{})
			s.open("a1", units("s1", 1, 1))
			o := order("first")
			s.reserve(s.epoch(), o)
			s.remembers(s.countReserves(), one("a1", ""))
			c.change(t, s, o)
			s.overridden(one("a1", "new"), c.want)
		})
	}
}

// moves sets the state of a1 and brings it to the gate.
func (s *sale) moves(to admission.State) {
	s.t.Helper()
	a, err := s.ledger.SetState(s.t.Context(), "a1", to)
	must(s.t, err)
	must(s.t, s.gate.SetSale(s.t.Context(), a))
}

// The sale's end is the gate's clock's, with nobody to bring it.
func TestRule28EndOfTheSale(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	s.reserve(s.epoch(), order("first"))
	s.remembers(s.countReserves(), one("a1", ""))
	ends := s.now().Add(500 * time.Millisecond).Truncate(time.Millisecond)
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	a.EndsAt = ends
	_, err = s.ledger.Put(t.Context(), a)
	must(t, err)
	a, err = s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	must(t, s.gate.SetSale(t.Context(), a))
	// The window is no part of what a look compares: only the clock ends the memory.
	eventually(t, "the end has come", func() (bool, string) { return !s.now().Before(ends), s.now().String() })
	s.overridden(one("a1", "new"), "410 ended")
}

// With one SKU sold out and another not: the order of the checks, and keys of both,
// are those of the gate.
func TestRule28KeysAndLimits(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 2), units("s2", 2, 1))
	bought := ask{activity: "a1", user: "u", key: "k", body: `{"sku":"s1","quantity":2}`}
	first := s.post(bought)
	c := s.countReserves()
	s.remembers(c, one("a1", ""))
	// Somebody whom the memory does not know buys the other SKU, on another node.
	other := order("v")
	other.SKU, other.Key = "s2", "k"
	s.reserve(s.epoch(), other)
	want := func(what string, a ask, code int, word string) answer {
		t.Helper()
		got := s.post(a)
		if got.status != code || got.code != word {
			t.Errorf("%s: %v, want %d %s", what, got, code, word)
		}
		return got
	}
	if got := want("the same key", bought, 200, ""); got.order != first.order {
		t.Errorf("the same key: order %s, want %s", got.order, first.order)
	}
	want("the limit before the stock", ask{activity: "a1", user: "u", body: `{"sku":"s1"}`}, 409, "limit-reached")
	want("the limit of a stranger", ask{activity: "a1", user: "w", body: `{"sku":"s1","quantity":3}`}, 409, "limit-reached")
	want("a key used for the other SKU", ask{activity: "a1", user: "v", key: "k", body: `{"sku":"s1"}`}, 422, "idempotency-mismatch")
	want("no such SKU", ask{activity: "a1", user: "w", body: `{"sku":"s9"}`}, 404, "not-found")
	want("the other SKU", ask{activity: "a1", user: "w", body: `{"sku":"s2"}`}, 202, "")
	// Once all is sold out, strangers under a key cost no call either.
	s.remembers(c, ask{activity: "a1", key: "new", body: `{"sku":"s1"}`})
	want("a key used for the other SKU", ask{activity: "a1", user: "v", key: "k", body: `{"sku":"s1"}`}, 422, "idempotency-mismatch")
}

// 10,000 buyers ask again among twice as many strangers, of a node that answers from
// memory: each is told his own order, every stranger that it is sold out.
func TestRule28ExactForBuyers(t *testing.T) {
	t.Parallel()
	const n = 10_000
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", n, 1))
	e, orders := s.epoch(), make([]admission.Order, n)
	for i := range orders {
		orders[i] = order(fmt.Sprint("buyer-", i))
	}
	for i := 0; i < n; i += admission.MaxBatchOrders {
		_, err := s.gate.Reserve(t.Context(), "a1", e, n+1, orders[i:min(n, i+admission.MaxBatchOrders)])
		must(t, err)
	}
	c := s.countReserves()
	s.remembers(c, one("a1", ""))
	before := c.n.Load()
	var asks []ask
	for i := range orders {
		asks = append(asks, one("a1", fmt.Sprint("new-", i)), one("a1", orders[i].User), one("a1", fmt.Sprint("newer-", i)))
	}
	answers := s.crowd(asks)
	wantCount(t, answers, map[string]int{"200": n, "409 sold-out": 2 * n})
	for i := range orders {
		if got := answers[3*i+1].order; got != orders[i].ID {
			t.Fatalf("buyer %d was told order %q, want %s", i, got, orders[i].ID)
		}
	}
	t.Logf("%d runs of the script for %d requests", c.n.Load()-before, len(asks))
}

// Whose order is dead is told of it under his key, not that all is sold out: the memory
// knows released orders too.
func TestRule28ReleasedBuyers(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	first := order("first")
	first.Key = "k"
	first = s.reserve(s.epoch(), first).Reservation.Order
	_, err := s.ledger.Settle(t.Context(), s.take(), delivery(s.epoch(), 1, first), 1)
	must(t, err)
	exec(t, s, `update orders set status = 'cancelled'`)
	must(t, s.gate.Settle(t.Context(), "a1", s.epoch(), []admission.Outcome{{ID: first.ID}}))
	s.reserve(s.epoch(), order("second"))
	s.remembers(s.countReserves(), ask{activity: "a1", key: "new", body: `{"sku":"s1"}`})
	got := s.post(ask{activity: "a1", user: "first", key: "k", body: `{"sku":"s1"}`})
	if got.status != 200 || got.order != first.ID || got.state != "cancelled" {
		t.Errorf("told %v %s, want the cancelled order %s", got, got.state, first.ID)
	}
}

// A node that cannot look at the gate any more does not go on from memory.
func TestRule28RedisAway(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	s.reserve(s.epoch(), order("first"))
	s.remembers(s.countReserves(), one("a1", ""))
	must(t, s.redis.Close())
	s.overridden(one("a1", "new"), "503 outcome-unknown")
}
