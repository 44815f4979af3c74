package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/consumer"
)

// told is what the stream of events says, by order: the statuses in its order, and
// whether the sequence rose all the while. An event that came again counts once.
func (i *installation) told() (statuses map[string][]string, ordered bool) {
	i.t.Helper()
	nc, err := nats.Connect(i.setting("SECKILL_NATS_URL"))
	must(i.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(i.t, err)
	events, err := js.OrderedConsumer(i.t.Context(), strings.ToUpper(i.setting("SECKILL_NAMESPACE"))+"_EVENTS", jetstream.OrderedConsumerConfig{})
	must(i.t, err)
	info, err := events.Info(i.t.Context())
	must(i.t, err)
	statuses, ordered = map[string][]string{}, true
	last := map[string]string{}
	seen := map[string]bool{}
	for range info.NumPending {
		m, err := events.Next(jetstream.FetchMaxWait(10 * time.Second))
		must(i.t, err)
		var e consumer.Event
		must(i.t, json.Unmarshal(m.Data(), &e))
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		ordered = ordered && e.Sequence > last[e.Subject]
		last[e.Subject] = e.Sequence
		statuses[e.Subject] = append(statuses[e.Subject], string(e.Data.Status))
	}
	return statuses, ordered
}

// Whole processes are killed in mid-sale, and the shop behind as well. In the end the
// stream has the events of every order, complete and in order, and the shop knows
// what the ledger does.
func TestEventsSurviveKills(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	api := i.serve("SECKILL_ROLES=api")
	worker := i.serve("SECKILL_ROLES=worker")
	const stock = 1000
	i.open(api, stock)
	shop := i.newShop()
	stop := shop.start()
	c := newCrowd(t, api)
	var sale sync.WaitGroup
	sale.Go(func() { c.buy(1200) })
	for n := range 3 {
		published := func() bool { return i.queryInt(`select count(*) from orders`) > (n+1)*stock/5 }
		until(t, "orders are settled", published)
		next := i.serve("SECKILL_ROLES=worker")
		worker.kill()
		worker = next
		stop()
		// What happens to orders while nobody publishes is told later.
		i.exec(`update orders set status = 'paid' where id in (select id from orders where status = 'confirmed' limit 50)`)
		stop = shop.start()
	}
	sale.Wait()
	i.audit(stock)
	until(t, "all events are published", func() bool { return i.queryInt(`select count(*) from outbox_batches`) == 0 })

	statuses, ordered := i.told()
	if !ordered {
		t.Error("events of one order came out of order")
	}
	row := i.statuses(i.pool, `select id::text, status from orders`)
	if len(row) < stock || len(statuses) != len(row) {
		t.Errorf("%d orders, events of %d", len(row), len(statuses))
	}
	for id, status := range row {
		want := []string{status}
		if status == "paid" {
			want = []string{"confirmed", "paid"}
		}
		if fmt.Sprint(statuses[id]) != fmt.Sprint(want) {
			t.Errorf("order %s: events %v, want %v", id, statuses[id], want)
		}
	}
	until(t, "the shop knows what the ledger does", func() bool {
		known := i.statuses(shop.pool, `select order_id::text, status from shop_orders`)
		for id, status := range row {
			if known[id] != status {
				return false
			}
		}
		return len(known) == len(row)
	})
	if n := shop.changes(); n != len(row)+150 {
		t.Errorf("the shop counted %d changes, want %d", n, len(row)+150)
	}
	stop()
}

// A node that is told to stop lets the streams of its buyers go, and ends in time.
func TestStopsWithOpenStreams(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	worker := i.serve("SECKILL_ROLES=worker")
	api := i.serve("SECKILL_ROLES=api")
	i.open(api, 30)
	worker.kill() // from here on, orders stay undecided
	var streams sync.WaitGroup
	for n := range 30 {
		user := map[string]string{"X-User-ID": fmt.Sprint("buyer-", n)}
		_, body, err := call(http.MethodPost, api.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, user)
		must(t, err)
		var order struct {
			ID string `json:"order_id"`
		}
		must(t, json.Unmarshal(body, &order))
		streams.Go(func() {
			status, body, err := call(http.MethodGet, api.http+"/v1/activities/a1/orders/"+order.ID+"/events", "", user)
			if status != 200 || !strings.Contains(string(body), `"status":"accepted"`) || err != nil {
				t.Errorf("the stream ended with %d %s (%v)", status, body, err)
			}
		})
	}
	until(t, "all streams are open", func() bool {
		_, body, err := call(http.MethodGet, api.admin+"/metrics", "", nil)
		return err == nil && strings.Contains(string(body), "\nseckill_order_streams 30\n")
	})
	began := time.Now()
	api.signal(syscall.SIGTERM)
	<-api.ended
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	streams.Wait()
}

// statuses reads pairs of id and status.
func (i *installation) statuses(pool func() *pgxpool.Pool, sql string) map[string]string {
	i.t.Helper()
	p := pool()
	defer p.Close()
	rows, err := p.Query(i.t.Context(), sql)
	must(i.t, err)
	defer rows.Close()
	of := map[string]string{}
	for rows.Next() {
		var id, status string
		must(i.t, rows.Scan(&id, &status))
		of[id] = status
	}
	must(i.t, rows.Err())
	return of
}

func (i *installation) pool() *pgxpool.Pool {
	i.t.Helper()
	pool, err := consumer.OpenPool(i.t.Context(), i.setting("SECKILL_POSTGRES_URL"), i.setting("SECKILL_NAMESPACE"), 2)
	must(i.t, err)
	return pool
}

func (i *installation) exec(sql string) {
	i.t.Helper()
	pool := i.pool()
	defer pool.Close()
	_, err := pool.Exec(i.t.Context(), sql)
	must(i.t, err)
}

// shop is the example consumer, with a schema of its own in the same Postgres.
type shop struct {
	i      *installation
	path   string
	schema string
}

func (i *installation) newShop() *shop {
	i.t.Helper()
	s := &shop{i: i, path: filepath.Join(i.t.TempDir(), "shop"), schema: i.setting("SECKILL_NAMESPACE") + "_shop"}
	if out, err := exec.Command("go", "build", "-o", s.path, "../../deploy/shop").CombinedOutput(); err != nil {
		i.t.Fatalf("build the example: %v\n%s", err, out)
	}
	i.exec(`create schema ` + s.schema)
	return s
}

// start runs the shop until the function that it returns kills it.
func (s *shop) start() (kill func()) {
	s.i.t.Helper()
	cmd := exec.Command(s.path)
	cmd.Env = append(os.Environ(), "SHOP_NATS_URL="+s.i.setting("SECKILL_NATS_URL"), "SHOP_NAMESPACE="+s.i.setting("SECKILL_NAMESPACE"),
		"SHOP_POSTGRES_URL="+s.i.setting("SECKILL_POSTGRES_URL")+"&search_path="+s.schema)
	cmd.Stderr = s.i.t.Output()
	must(s.i.t, cmd.Start())
	kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.i.t.Cleanup(kill)
	return kill
}

func (s *shop) pool() *pgxpool.Pool {
	s.i.t.Helper()
	pool, err := pgxpool.New(s.i.t.Context(), s.i.setting("SECKILL_POSTGRES_URL")+"&search_path="+s.schema)
	must(s.i.t, err)
	return pool
}

func (s *shop) changes() (n int) {
	s.i.t.Helper()
	pool := s.pool()
	defer pool.Close()
	must(s.i.t, pool.QueryRow(context.Background(), `select sum(changes) from shop_orders`).Scan(&n))
	return n
}
