package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// offer is one SKU of one activity.
type offer struct{ activity, sku string }

func offersOf(activities, skus []string) (offers []offer) {
	for _, sku := range skus {
		for _, activity := range activities {
			offers = append(offers, offer{activity, sku})
		}
	}
	return offers
}

// throng is a crowd without an end: new buyers in the order of their numbers and, as a share of the requests,
// buyers who asked a moment before and saw no answer yet. A buyer wants one offer, always the same. The same seed
// makes the same requests; memory does not grow with their number.
type throng struct {
	paths, bodies [][]byte
	repeats       float64 // share of the requests, 0 to 1
	buyers        uint32  // when all have asked, somebody asks again
	random        *rand.Rand
	fresh         uint32 // the next new buyer

	holders uint32 // repeats are of these first buyers; 0: of those who asked lately
	keyAll  bool   // every client sends an Idempotency-Key
}

// lately is how many buyers back a repeat reaches.
const lately = 2000

func newThrong(offers []offer, buyers uint32, repeats float64, seed uint64) *throng {
	t := &throng{repeats: repeats, buyers: buyers, random: rand.New(rand.NewPCG(seed, 1))}
	for _, o := range offers {
		t.paths = append(t.paths, []byte("/v1/activities/"+o.activity+"/orders"))
		t.bodies = append(t.bodies, []byte(`{"sku":"`+o.sku+`","quantity":1}`))
	}
	return t
}

// asks sets how many units each buyer wants; without it, one.
func (t *throng) asks(offers []offer, units int) {
	for i, o := range offers {
		t.bodies[i] = fmt.Appendf(nil, `{"sku":%q,"quantity":%d}`, o.sku, units)
	}
}

// fill is the source of the load. Every second buyer's client sends an Idempotency-Key, the same with each
// request; the others rely on the limit of one.
func (t *throng) fill(_ int64, r *loadRequest) {
	buyer := t.who()
	wants := t.wants(buyer)
	r.Path = append(r.Path[:0], t.paths[wants]...)
	r.Body = append(r.Body[:0], t.bodies[wants]...)
	r.Buyer = appendBuyer(r.Buyer[:0], buyer)
	r.Key = r.Key[:0]
	if t.keyed(buyer) {
		r.Key = append(append(r.Key, "tap-of-"...), r.Buyer...)
	}
}

func (t *throng) who() uint32 {
	switch {
	case t.fresh > 0 && t.random.Float64() < t.repeats:
		if t.holders > 0 {
			return t.random.Uint32N(t.holders)
		}
		return t.fresh - 1 - t.random.Uint32N(min(t.fresh, lately))
	case t.fresh >= t.buyers:
		return t.random.Uint32N(t.buyers)
	}
	t.fresh++
	return t.fresh - 1
}

// wants is the buyer's offer.
func (t *throng) wants(buyer uint32) int { return int(buyer) % len(t.paths) }

func (t *throng) keyed(buyer uint32) bool { return t.keyAll || int(buyer)/len(t.paths)%2 == 0 }

// buyerNumber is the number in a buyer's name as appendBuyer wrote it.
func buyerNumber(name []byte) uint32 {
	digits := name[slices.Index(name, '-')+1:]
	n, _ := strconv.ParseUint(string(digits), 10, 32) // we wrote it
	return uint32(n)
}
