package consumer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
	"seckill/lockprovider"
)

func (s *sale) reconcile(activity string, wait time.Duration) *consumer.Reconcile {
	s.t.Helper()
	leases, err := lockprovider.Open(s.t.Context(), lockprovider.Config{
		Backend: "etcd", EtcdEndpoints: []string{s.servers.EtcdEndpoint()}, Namespace: s.namespace,
		TTL: 3 * time.Second, Instance: "reconcile", Logger: s.logger,
	})
	must(s.t, err)
	s.t.Cleanup(func() { _ = leases.Close(s.t.Context()) })
	return &consumer.Reconcile{
		Audit: &consumer.Audit{
			Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: consumer.ReadDeadLetters(s.log.JetStream(), s.namespace),
			Activity: activity, Wait: wait,
		},
		Sweep:   &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger},
		Release: s.release(), Rebuild: s.rebuild(), Leases: leases, Namespace: s.namespace,
	}
}

// planned is a plan in short: what is repaired how, and which laws are left.
func planned(p consumer.Plan) string {
	var words []string
	for _, f := range p.Findings {
		word := f.Repair
		if word == "" {
			word = "by hand " + f.Law
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// Each kind of damage: the plan names it and changes nothing, what is safe to repair
// is repaired, and the rest stays and is named.
func TestReconcile(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	stock := func(a string) string { return s.gateKey(a, "stock") }
	cases := []struct {
		name  string
		plant func(a string, sold []string)
		plan  string
		left  string // laws after the repairs
	}{
		{"nothing", func(string, []string) {}, "", ""},
		{"unit added at the gate", func(a string, _ []string) { must(t, s.redis.HIncrBy(t.Context(), stock(a), "s1", 1).Err()) }, "rebuild", ""},
		{"counter below zero at the gate", func(a string, _ []string) { must(t, s.redis.HSet(t.Context(), stock(a), "s1", -1).Err()) }, "rebuild", ""},
		{"two errors that balance", func(a string, sold []string) {
			cancelRow(s, a, sold[1], "null")
			must(t, s.redis.HDel(t.Context(), s.gateKey(a, "orders"), admission.GateID(sold[2])).Err())
			must(t, s.redis.HIncrBy(t.Context(), stock(a), "s1", 1).Err())
		}, "rebuild", ""},
		{"release due", func(_ string, sold []string) { s.cancelled(sold[1]) }, "release", ""},
		{"stock column", func(a string, _ []string) { s.exec(`update skus set stock = stock + 1 where activity_id = $1`, a) }, "by hand status", "status"},
		{"stock column, and a unit added at the gate", func(a string, _ []string) {
			s.exec(`update skus set stock = stock + 1 where activity_id = $1`, a)
			must(t, s.redis.HIncrBy(t.Context(), stock(a), "s1", 1).Err())
		}, "by hand stranded, by hand status", "stranded status"},
		{"limit", func(_ string, sold []string) {
			s.exec(`update orders set user_id = (select user_id from orders where id = $1) where id = $2`, sold[1], sold[2])
		}, "by hand status, by hand limit, by hand status", "limit status"},
		{"lost", func(a string, _ []string) {
			b := admission.NewBatch(a, 1)
			b.Orders = []admission.Order{{ID: admission.NewID(), User: "u", SKU: "s1", Quantity: 1, At: time.Now()}}
			seq, err := s.log.Append(t.Context(), b)
			must(t, err)
			eventually(t, "the order is settled", func() (bool, string) {
				settled, err := s.ledger.Settled(t.Context(), s.log.Partition(a))
				return err == nil && settled >= seq, fmt.Sprint(settled, err)
			})
			s.exec(`delete from orders where id = $1`, b.Orders[0].ID)
		}, "by hand lost", "lost"},
	}
	for i, tc := range cases {
		a := fmt.Sprint("a", i)
		s.open(a, units("s1", 5, 1))
		var sold []string
		for _, got := range s.crowd([]ask{one(a, "first"), one(a, "second"), one(a, "third")}) {
			sold = append(sold, got.order)
		}
		if r := s.audit(a, 30*time.Second); !r.OK || !r.AtRest {
			t.Fatalf("%s: before: %+v", tc.name, r)
		}
		tc.plant(a, sold)
		r := s.reconcile(a, 10*time.Second)
		before, err := s.gate.Mark(t.Context(), a)
		must(t, err)
		plan, err := r.Plan(t.Context())
		must(t, err)
		after, err := s.gate.Mark(t.Context(), a)
		must(t, err)
		if got := planned(plan); got != tc.plan || !plan.AtRest || !after.Equal(before) {
			t.Errorf("%s: planned %q, want %q, gate untouched %t: %+v", tc.name, got, tc.plan, after.Equal(before), plan)
		}
		s.followNext(tc.name, plan)
		must(t, r.Repair(t.Context(), &plan))
		report := s.audit(a, 10*time.Second)
		var laws []string
		for _, v := range report.Violations {
			if len(laws) == 0 || laws[len(laws)-1] != v.Law {
				laws = append(laws, v.Law)
			}
		}
		if got := strings.Join(laws, " "); !sameWords(got, tc.left) {
			t.Errorf("%s: left %q, want %q: %+v", tc.name, got, tc.left, report)
		}
		for _, f := range plan.Findings {
			if f.Repair != "" && !strings.HasPrefix(f.Result, "done") {
				t.Errorf("%s: %+v", tc.name, f)
			}
		}
	}
}

func sameWords(a, b string) bool {
	left, right := map[string]bool{}, map[string]bool{}
	for _, w := range strings.Fields(a) {
		left[w] = true
	}
	for _, w := range strings.Fields(b) {
		right[w] = true
	}
	return fmt.Sprint(left) == fmt.Sprint(right)
}

// followNext runs the SQL that an operator is told, which has to find something.
func (s *sale) followNext(name string, plan consumer.Plan) {
	s.t.Helper()
	for _, f := range plan.Findings {
		if f.Why == "" || f.Found == "" || f.Repair == "" && f.Next == "" {
			s.t.Errorf("%s: incomplete: %+v", name, f)
		}
		if f.Law == consumer.LawLost && f.Next != "seckill replay run --order "+f.Order+" --mode republish" {
			s.t.Errorf("%s: next %q", name, f.Next)
		}
		if !strings.HasPrefix(f.Next, "select ") {
			continue
		}
		tag, err := s.pool.Exec(s.t.Context(), f.Next)
		if err != nil || tag.RowsAffected() == 0 {
			s.t.Errorf("%s: %s: %v, %v", name, f.Next, tag, err)
		}
	}
}

// Reservations whose append or whose outcome got lost are swept, and the gate of a
// sale is rebuilt when it is gone, also with no worker there.
func TestReconcileSweepsAndRebuilds(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 5, 1))
	stop := s.startWorker(workerOptions{})
	s.books("a1", s.crowd(buyers("a1", 1)))
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	order := admission.Order{ID: admission.NewID(), User: "nobody appends it", SKU: "s1", Quantity: 1}
	_, err = s.gate.Reserve(t.Context(), "a1", a.Epoch, 1000, []admission.Order{order})
	must(t, err)
	r := s.reconcile("a1", 0)
	var plan consumer.Plan
	eventually(t, "the reservation is overdue", func() (bool, string) {
		plan, err = r.Plan(t.Context())
		must(t, err)
		return len(plan.Findings) > 0, planned(plan)
	})
	if planned(plan) != "sweep" || plan.AtRest {
		t.Fatalf("a reservation that nobody appends: %+v", plan)
	}
	ctx := consumer.OnBehalf(t.Context(), consumer.Operator{Name: "ann", Reason: "test"})
	must(t, r.Repair(ctx, &plan))
	if r := s.audit("a1", 30*time.Second); !r.OK || !r.AtRest || r.Activities[0].SKUs[0].Live != 2 {
		t.Errorf("after the sweep: %+v", r)
	}
	if n := queryInt(t, s, `select count(*) from activity_log where actor = 'ann' and action = 'reconcile by sweep' and subject = 'a1' and reason = 'test'`); n != 1 {
		t.Errorf("%d entries in the activity log", n)
	}
	if plan, err = r.Plan(t.Context()); err != nil || len(plan.Findings) != 0 {
		t.Errorf("after the sweep: %+v, %v", plan, err)
	}

	stop()
	must(t, s.redis.Del(t.Context(), s.gateKey("a1", "gate")).Err())
	eventually(t, "the gate is missed", func() (bool, string) {
		plan, err = r.Plan(t.Context())
		must(t, err)
		return planned(plan) == "rebuild", planned(plan)
	})
	must(t, r.Repair(ctx, &plan))
	if r := s.audit("a1", 0); !r.OK || !r.AtRest || *r.Activities[0].SKUs[0].GateStock != 3 {
		t.Errorf("after the rebuild: %+v", r)
	}
	// While something waits to be settled and no worker is there, nothing is closed.
	s.crowd([]ask{one("a1", "late")})
	must(t, s.ledger.Suspect(t.Context(), "a1", a.Epoch, "an old epoch changes nothing"))
	now, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	if now.Suspect != "" {
		t.Errorf("suspect: %q", now.Suspect)
	}
	must(t, s.ledger.Suspect(t.Context(), "a1", now.Epoch, "a test says so"))
	plan, err = r.Plan(t.Context())
	must(t, err)
	if err := r.Repair(ctx, &plan); err == nil || !strings.Contains(err.Error(), "no worker") || !strings.Contains(planned(plan), "rebuild") {
		t.Errorf("a rebuild without a worker: %v, %+v", err, plan)
	}
	if view, err := s.gate.View(t.Context(), "a1"); err != nil || !view.Ready(now.Epoch) {
		t.Errorf("the gate was touched: %+v, %v", view, err)
	}
}
