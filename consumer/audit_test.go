package consumer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/consumer"
)

func (s *sale) audit(activity string, wait time.Duration) consumer.Report {
	s.t.Helper()
	a := &consumer.Audit{
		Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: consumer.ReadDeadLetters(s.log.JetStream(), s.namespace),
		Activity: activity, Wait: wait,
	}
	report, err := a.Run(s.t.Context())
	must(s.t, err)
	return report
}

// found lists the violations as "law sku order", each once.
func found(r consumer.Report) []string {
	var list []string
	for _, v := range r.Violations {
		list = append(list, strings.TrimSpace(v.Law+" "+v.SKU+" "+v.Order))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s *sale) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	must(s.t, err)
}

func (s *sale) gateKey(activity, what string) string {
	return s.namespace + ":{" + activity + "/0}:" + what
}

func TestCleanSaleAuditsClean(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 20, 1), units("s2", 5, 3))
	stop := s.startWorker(workerOptions{})
	var asks []ask
	for i := range 40 {
		asks = append(asks, one("a1", fmt.Sprint("buyer", i)))
	}
	for i := range 3 {
		asks = append(asks, ask{activity: "a1", user: fmt.Sprint("buyer", i), key: "k", body: `{"sku":"s2","quantity":2}`})
	}
	s.crowd(asks)
	r := s.audit("", 30*time.Second)
	if !r.OK || !r.AtRest || len(r.Violations) != 0 || r.Log.Orders != 22 || r.Log.Backlog != 0 || r.Log.Dead != 0 {
		t.Errorf("a clean sale: %+v", r)
	}
	s1 := r.Activities[0].SKUs[0]
	if s1.SKU != "s1" || s1.Total != 20 || s1.Live != 20 || s1.Stock != 0 || s1.GateStock == nil || *s1.GateStock != 0 || s1.Epoch == 0 {
		t.Errorf("books of s1: %+v", s1)
	}
	// Orders that nobody settles are no violation, and no rest.
	stop()
	s.open("a2", units("s1", 5, 1))
	s.crowd([]ask{one("a2", "u1"), one("a2", "u2")})
	r = s.audit("", 300*time.Millisecond)
	if !r.OK || r.AtRest || r.Log.Backlog != 2 || r.Activities[1].SKUs[0].Undecided != 2 {
		t.Errorf("a sale in motion: %+v", r)
	}
	s.startWorker(workerOptions{instance: "second"})
	if r = s.audit("a2", 30*time.Second); !r.OK || !r.AtRest || r.Log.Orders != 2 || len(r.Activities) != 1 {
		t.Errorf("after the backlog: %+v", r)
	}
}

// An audit beside a sale finds nothing, whatever moves while it reads.
func TestAuditBesideSale(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 300, 1))
	s.startWorker(workerOptions{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wave := range 10 {
			var asks []ask
			for i := range 40 {
				asks = append(asks, one("a1", fmt.Sprint("buyer", wave, "-", i)))
			}
			s.crowd(asks)
		}
	}()
	audits := 0
	for over := false; !over; audits++ {
		select {
		case <-done:
			over = true
		default:
		}
		if r := s.audit("", 0); !r.OK {
			t.Fatalf("audit %d beside the sale: %+v", audits, r)
		}
	}
	if r := s.audit("", 30*time.Second); !r.OK || !r.AtRest || r.Activities[0].SKUs[0].Live != 300 {
		t.Errorf("after %d audits beside the sale: %+v", audits, r)
	}
}
