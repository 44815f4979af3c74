package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seckill/consumer"
	"seckill/lockprovider"
)

// poisoned is a buyer whose orders cannot be settled as they stand.
const poisoned = "poison"

// machineSale is what all runs of one machine share.
type machineSale struct {
	*sale
	workers []*consumer.Worker
	replays *lockprovider.Provider
	runs    int
}

func newMachineSale(t *testing.T) *machineSale {
	s := &machineSale{sale: newSale(t, saleOptions{partitions: 1, poolSize: 8})}
	s.exec(`
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a rule of the shop'; end $$;
		create trigger poison before insert on orders for each row
		  when (new.user_id = 'poison' and new.status in ('confirmed', 'pending_payment')) execute function refuse()`)
	dead, err := consumer.OpenDeadLetters(t.Context(), s.log.JetStream(), s.namespace, 1)
	must(t, err)
	// Each has the lease, since each has a lock store of its own: the term decides.
	for n := range 2 {
		s.workers = append(s.workers, &consumer.Worker{
			Instance: fmt.Sprint("worker", n), Ledger: s.ledger, Log: s.log, Gate: s.gate, Dead: dead, Leases: s.leases(n),
			AckWait: time.Hour, Metrics: consumer.NewMetrics(nil), Logger: s.logger,
		})
	}
	s.replays = s.leases(len(s.workers))
	return s
}

func (s *machineSale) leases(n int) *lockprovider.Provider {
	leases, err := lockprovider.Open(s.t.Context(), lockprovider.Config{
		Backend: "redis", RedisURL: s.servers.RedisURL(), Namespace: fmt.Sprintf("%.20s_%d", s.namespace, n),
		TTL: 30 * time.Second, Instance: fmt.Sprint("worker", n), Logger: s.logger,
	})
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = leases.Close(ctx)
	})
	return leases
}
