package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// crowd is who asks, in which order. Every buyer asks at least once; the rest of the requests are second and
// third taps of people who saw no answer yet: soon after their last one, mixed with everybody else's.
type crowd struct {
	path, body []byte
	buyers     int
	order      []uint32 // buyer of each request, 4 bytes a request
}

// tapsLater is how far behind its predecessor a repeated request comes, on average, as a part of the whole rush.
const tapsLater = 0.05

// newCrowd is the same for the same seed.
func newCrowd(activity, sku string, buyers, requests int, seed uint64) (*crowd, error) {
	if buyers < 1 || requests < buyers {
		return nil, fmt.Errorf("crowd: %d requests of %d buyers: at least one buyer, and one request each", requests, buyers)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	taps := make([]int, buyers)
	for b := range taps {
		taps[b] = 1
	}
	for range requests - buyers {
		taps[random.IntN(buyers)]++
	}
	type ask struct {
		at    float64
		buyer uint32
	}
	asks := make([]ask, 0, requests)
	for b, n := range taps {
		for at := random.Float64(); n > 0; n-- {
			asks = append(asks, ask{at, uint32(b)})
			at += random.ExpFloat64() * tapsLater
		}
	}
	slices.SortFunc(asks, func(a, b ask) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	c := &crowd{
		path:   []byte("/v1/activities/" + activity + "/orders"),
		body:   []byte(`{"sku":"` + sku + `","quantity":1}`),
		buyers: buyers, order: make([]uint32, requests),
	}
	for i, a := range asks {
		c.order[i] = a.buyer
	}
	return c, nil
}

// fill is the source of the load. Every second buyer's client sends an Idempotency-Key, the same with each tap;
// the others rely on the limit of one.
func (c *crowd) fill(n int64, r *loadRequest) { c.ask(c.order[n], r) }

// ask is the request of one buyer.
func (c *crowd) ask(buyer uint32, r *loadRequest) {
	r.Path = append(r.Path[:0], c.path...)
	r.Body = append(r.Body[:0], c.body...)
	r.Buyer = appendBuyer(r.Buyer[:0], buyer)
	r.Key = r.Key[:0]
	if buyer%2 == 0 {
		r.Key = append(append(r.Key, "tap-of-"...), r.Buyer...)
	}
}

func appendBuyer(to []byte, buyer uint32) []byte {
	return strconv.AppendUint(append(to, "buyer-"...), uint64(buyer), 10)
}

func buyerName(buyer uint32) string { return string(appendBuyer(nil, buyer)) }

// tally keeps what the audit must know of the answers. It belongs to the engine's goroutine until the load has
// ended; the counters can be read meanwhile.
type tally struct {
	buyer    func(n int64) uint32       // of request n
	sold     func(id string, to uint32) // told of each order answered with 202; must not block
	admitted map[string]uint32          // order id answered with 202, and to whom
	repeated map[string]uint32          // order id answered with 200
	unknown  map[string]uint32          // order id of an answer that leaves the outcome open
	faults   []string                   // answers that break the contract, the first few
	faulty   int

	lastAdmitted time.Duration // from the start of the load

	counters
}

// counters are what a progress bar shows; they can be read while the load goes on.
type counters struct{ answers, accepted, refused atomic.Int64 }

const faultsShown = 10

func newTally(c *crowd) *tally {
	return &tally{
		buyer: func(n int64) uint32 { return c.order[n] }, sold: func(string, uint32) {},
		admitted: map[string]uint32{}, repeated: map[string]uint32{}, unknown: map[string]uint32{},
	}
}

// heard is told of each answer.
func (t *tally) heard(a *loadAnswer) {
	t.answers.Add(1)
	buyer := t.buyer(a.N)
	switch a.Status {
	case 202:
		t.accepted.Add(1)
		t.lastAdmitted = a.Done
		if _, twice := t.admitted[string(a.OrderID)]; twice || len(a.OrderID) == 0 {
			t.fault("request %d of %s: 202 with the order id %q, which is empty or was given before",
				a.N, buyerName(buyer), a.OrderID)
			return
		}
		t.admitted[string(a.OrderID)] = buyer
		t.sold(string(a.OrderID), buyer)
	case 200:
		if len(a.OrderID) == 0 {
			t.fault("request %d of %s: 200 without an order id", a.N, buyerName(buyer))
			return
		}
		if other, known := t.repeated[string(a.OrderID)]; known && other != buyer {
			t.fault("order %s was shown to %s and to %s", a.OrderID, buyerName(other), buyerName(buyer))
		}
		t.repeated[string(a.OrderID)] = buyer
	case 0, 503:
		if len(a.OrderID) > 0 {
			t.unknown[string(a.OrderID)] = buyer
		}
	default:
		t.refused.Add(1)
	}
}

func (t *tally) fault(format string, args ...any) {
	t.faulty++
	if len(t.faults) < faultsShown {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}
