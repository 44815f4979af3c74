package consumer_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stick makes one connection of the pool hang in the middle of its work, with a lock
// that everybody needs. The function it returns kills the connection at the server.
func (s *sale) stick() (kill func()) {
	s.t.Helper()
	conn, err := s.pool.Acquire(s.t.Context())
	must(s.t, err)
	_, err = conn.Exec(s.t.Context(), `begin; set local statement_timeout = 0; lock table orders in access exclusive mode`)
	must(s.t, err)
	pid, stuck := conn.Conn().PgConn().PID(), make(chan struct{})
	go func() {
		defer close(stuck)
		defer conn.Release()
		_, _ = conn.Exec(context.Background(), `select pg_sleep(600)`)
	}()
	kill = sync.OnceFunc(func() {
		admin, err := pgx.Connect(context.Background(), s.servers.PostgresURL())
		must(s.t, err)
		defer func() { _ = admin.Close(context.Background()) }()
		_, err = admin.Exec(context.Background(), `select pg_terminate_backend($1)`, pid)
		must(s.t, err)
		<-stuck
	})
	s.t.Cleanup(kill)
	return kill
}

// A pool of two connections, one of them stuck with a lock on the orders, and 500
// callers who need the ledger: each is answered in bounded time, with 503 and when to
// ask again, and orders are admitted meanwhile. When the connection is killed, everybody
// is told his order, and nothing is lost.
func TestCase32PoolWithAStuckConnection(t *testing.T) {
	t.Parallel()
	const callers = 500
	s := newSale(t, saleOptions{poolSize: 2})
	s.open("a1", units("s1", 2*callers, 1))
	bought := s.crowd(buyers("a1", callers))
	wantCount(t, bought, map[string]int{"202": callers})
	// Every second caller reads one order, the others list theirs.
	read := func() []answer {
		answers := make([]answer, callers)
		var all sync.WaitGroup
		for i, a := range bought {
			all.Go(func() {
				path := a.location
				if i%2 == 1 {
					path = "/v1/activities/a1/orders"
				}
				answers[i] = s.get(path, fmt.Sprint("buyer-", i))
			})
		}
		all.Wait()
		return answers
	}
	wantCount(t, read(), map[string]int{"200": callers})

	kill := s.stick()
	began := time.Now()
	answers := read()
	// All ask at once, and each is bounded by two seconds; the rest is slack for a busy
	// machine, and less than a client's patience.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("%d callers were answered in %v", callers, took)
	}
	for _, a := range answers {
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != http.StatusServiceUnavailable || err != nil || after < 1 {
			t.Fatalf("with a stuck connection: %v, Retry-After %q; all: %v", a, a.header.Get("Retry-After"), count(answers))
		}
	}
	late := s.crowd([]ask{one("a1", "late-1"), one("a1", "late-2")})
	wantCount(t, late, map[string]int{"202": 2})

	kill()
	eventually(t, "everybody is told his order", func() (bool, string) {
		got := count(read())
		return got["200"] == callers, fmt.Sprint(got)
	})
	s.startWorker(workerOptions{})
	s.books("a1", append(bought, late...))
}
