package consumer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// damage is something that no path of the system does, planted by hand. sold are
// three live orders of s1 (five units, limit 1, the first one under a key).
type damage struct {
	name  string
	plant func(s *sale, a string, sold []string)
	want  func(sold []string) []string
}

var damages = []damage{
	{"nothing", func(*sale, string, []string) {}, func([]string) []string { return nil }},
	{"unit added at the gate", func(s *sale, a string, _ []string) {
		must(s.t, s.redis.HIncrBy(s.t.Context(), s.gateKey(a, "stock"), "s1", 1).Err())
	}, func([]string) []string { return []string{"stranded s1"} }},
	{"unit gone at the gate", func(s *sale, a string, _ []string) {
		must(s.t, s.redis.HIncrBy(s.t.Context(), s.gateKey(a, "stock"), "s1", -1).Err())
	}, func([]string) []string { return []string{"stranded s1"} }},
	{"counter below zero at the gate", func(s *sale, a string, _ []string) {
		must(s.t, s.redis.HSet(s.t.Context(), s.gateKey(a, "stock"), "s1", -1).Err())
	}, func([]string) []string { return []string{"negative s1", "stranded s1"} }},
	{"counter below zero in the ledger", func(s *sale, a string, _ []string) {
		s.exec(`update skus set stock = -1 where activity_id = $1`, a)
	}, func([]string) []string { return []string{"negative s1", "status s1"} }},
	{"row deleted", func(s *sale, _ string, sold []string) {
		s.exec(`delete from orders where id = $1`, sold[1])
	}, func(sold []string) []string {
		return []string{"lost s1 " + sold[1], "status s1", "status s1 " + sold[1], "stranded s1"}
	}},
	{"row twice", func(s *sale, _ string, sold []string) {
		s.exec(`insert into orders select * from orders where id = $1`, sold[1])
	}, func(sold []string) []string {
		return []string{"duplicate s1 " + sold[1], "limit s1 " + sold[1], "status s1", "stranded s1"}
	}},
	{"key with two orders", func(s *sale, _ string, sold []string) {
		copyRow(s, sold[0], "ffffffff-ffff-7fff-bfff-ffffffffffff", "sold-out")
	}, func([]string) []string { return []string{"duplicate s1 ffffffff-ffff-7fff-bfff-ffffffffffff"} }},
	{"key used again after a stale order", func(s *sale, _ string, sold []string) {
		copyRow(s, sold[0], "eeeeeeee-ffff-7fff-bfff-ffffffffffff", "stale")
	}, func([]string) []string { return nil }},
	{"more live than total", func(s *sale, a string, _ []string) {
		s.exec(`update skus set total = 2, stock = 0 where activity_id = $1`, a)
	}, func([]string) []string { return []string{"oversold s1", "status s1", "stranded s1"} }},
	{"status outside the list", func(s *sale, _ string, sold []string) {
		s.exec(`update orders set status = 'sold' where id = $1`, sold[1])
	}, func(sold []string) []string { return []string{"status s1", "status s1 " + sold[1], "stranded s1"} }},
	{"row of another buyer", func(s *sale, _ string, sold []string) {
		s.exec(`update orders set user_id = 'nobody' where id = $1`, sold[1])
	}, func(sold []string) []string { return []string{"status s1 " + sold[1]} }},
	{"buyer with two units", func(s *sale, _ string, sold []string) {
		s.exec(`update orders set user_id = (select user_id from orders where id = $1) where id = $2`, sold[1], sold[2])
	}, func(sold []string) []string {
		return []string{"limit s1 " + max(sold[1], sold[2]), "status s1 " + sold[2]}
	}},
	{"release forgotten", func(s *sale, a string, sold []string) { cancelRow(s, a, sold[1], "null") }, func(sold []string) []string {
		return []string{"status s1 " + sold[1], "stranded s1"}
	}},
	{"release due", func(s *sale, a string, sold []string) {
		cancelRow(s, a, sold[1], "(select epoch from activities where id = $2)")
	}, func([]string) []string { return nil }},
	{"release forgotten and reservation forgotten", func(s *sale, a string, sold []string) {
		cancelRow(s, a, sold[1], "null")
		must(s.t, s.redis.HDel(s.t.Context(), s.gateKey(a, "orders"), admission.GateID(sold[2])).Err())
		must(s.t, s.redis.HIncrBy(s.t.Context(), s.gateKey(a, "stock"), "s1", 1).Err())
	}, func(sold []string) []string { return []string{"status s1 " + sold[1], "status s1 " + sold[2]} }},
	{"pending without the list", func(s *sale, a string, sold []string) {
		key := s.gateKey(a, "orders")
		record := s.redis.HGet(s.t.Context(), key, admission.GateID(sold[1])).Val()
		must(s.t, s.redis.HSet(s.t.Context(), key, admission.GateID(sold[1]), "p"+record[1:]).Err())
	}, func(sold []string) []string { return []string{"status s1 " + sold[1]} }},
	{"record that cannot be read", func(s *sale, a string, sold []string) {
		must(s.t, s.redis.HSet(s.t.Context(), s.gateKey(a, "orders"), admission.GateID(sold[1]), "?").Err())
	}, func(sold []string) []string { return []string{"status  " + sold[1], "status s1 " + sold[1]} }},
	{"order in the log only", func(s *sale, a string, _ []string) {
		b := admission.NewBatch(a, 1)
		b.Orders = []admission.Order{{ID: logOnly, User: "u", SKU: "s1", Quantity: 1, At: time.Now()}}
		seq, err := s.log.Append(s.t.Context(), b)
		must(s.t, err)
		s.exec(`update partitions set settled_seq = $2 where partition = $1`, s.log.Partition(a), int64(seq))
	}, func([]string) []string { return []string{"lost s1 " + logOnly} }},
}

const logOnly = "dddddddd-ffff-7fff-bfff-ffffffffffff"

func copyRow(s *sale, id, as, reason string) {
	s.exec(`
		insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, reason, created_at, key, epoch, partition, log_seq, term)
		select $2, activity_id, sku_id, user_id, quantity, amount, 'rejected', $3, created_at, key, epoch, partition, log_seq, term
		  from orders where id = $1`, id, as, reason)
}

// cancelRow cancels as a path would, and says as it is told where the unit goes.
func cancelRow(s *sale, a, id, release string) {
	s.exec(`with o as (update orders set status = 'cancelled', release_epoch = `+release+` where id = $1)
		update skus set stock = stock + 1 where activity_id = $2`, id, a)
}

func TestAuditNamesDamage(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	stop := s.startWorker(workerOptions{})
	sold := make([][]string, len(damages))
	for i := range damages {
		a := fmt.Sprint("a", i)
		s.open(a, units("s1", 5, 1))
		first := one(a, "first")
		first.key = "k"
		for _, got := range s.crowd([]ask{first, one(a, "second"), one(a, "third")}) {
			sold[i] = append(sold[i], got.order)
		}
	}
	if r := s.audit("", 30*time.Second); !r.OK || !r.AtRest {
		t.Fatalf("before any damage: %+v", r)
	}
	stop()
	s.exec(`alter table orders drop constraint orders_pkey, drop constraint orders_status_check`)
	s.exec(`alter table skus drop constraint skus_check`)
	for i, d := range damages {
		a := fmt.Sprint("a", i)
		d.plant(s, a, sold[i])
		r := s.audit(a, 0)
		want := d.want(sold[i])
		slices.Sort(want) // the ids of a crowd rise in any order
		if got := found(r); !slices.Equal(got, want) || r.OK != (len(want) == 0) || !r.AtRest {
			t.Errorf("%s: found %q, want %q; %+v", d.name, got, want, r)
		}
	}
	// The light audit sees the numbers, and only those.
	for i, d := range damages {
		var want []string
		for _, v := range d.want(sold[i]) {
			if _, rest, _ := strings.Cut(v, " "); rest == "s1" {
				want = append(want, v)
			}
		}
		a := &consumer.Audit{Ledger: s.ledger, Gate: s.gate, Log: s.log, Activity: fmt.Sprint("a", i)}
		r, err := a.Light(t.Context())
		must(t, err)
		if got := found(r); !slices.Equal(got, want) {
			t.Errorf("%s: the light audit found %q, want %q; %+v", d.name, got, want, r)
		}
	}
	// Everything together, in one audit of all.
	if r := s.audit("", 0); r.OK || !r.AtRest || len(found(r)) < len(damages) {
		t.Errorf("all damages: %+v", r)
	}
}
