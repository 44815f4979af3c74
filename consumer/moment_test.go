package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/consumer"
)

// Whatever is under way, the units of a moment that calls itself exact add up, and a
// gate that lost units is seen. Red if the gate is not marked again after the look.
func TestMomentsAddUpUnderTraffic(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1000, 1))
	s.startWorker(workerOptions{})
	audit := &consumer.Audit{Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: consumer.ReadDeadLetters(s.log.JetStream(), s.namespace)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := range 40 {
			var asks []ask
			for i := range 8 {
				asks = append(asks, one("a1", fmt.Sprint("buyer", round, "-", i)))
			}
			s.crowd(asks)
		}
	}()
	look := func() consumer.Moment {
		m, err := audit.Moment(t.Context(), "a1")
		must(t, err)
		if sku := m.SKUs[0]; m.Exact && sku.Difference != 0 {
			t.Errorf("the units of an exact moment do not add up: %d at the gate, %d undecided, %+v, %d due: off by %d",
				*sku.GateStock, sku.Undecided, sku.Units, sku.ReleaseDue, sku.Difference)
		}
		return m
	}
	for selling := true; selling; {
		select {
		case <-done:
			selling = false
		default:
			look()
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for m := look(); !m.Exact || m.SKUs[0].Live() != 320; m = look() {
		if time.Now().After(deadline) {
			t.Fatalf("no exact moment after the rush: %+v", m)
		}
	}
	must(t, s.redis.HIncrBy(t.Context(), s.gateKey("a1", "stock"), "s1", -3).Err())
	if m, err := audit.Moment(t.Context(), "a1"); err != nil || !m.Exact || m.SKUs[0].Difference != 3 {
		t.Errorf("a gate that lost three units: %+v, %v", m, err)
	}
}
