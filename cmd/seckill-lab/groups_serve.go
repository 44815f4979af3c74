package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// The groups A, B and C are what others build. They are here to be compared with, and nowhere else: A and B sell
// what is not there.

// seller is one way to take orders. It answers sold false when nothing is left.
type seller interface {
	sell(ctx context.Context, o groupOrder) (sold bool, err error)
}

// groupOrder is one order of one unit.
type groupOrder struct {
	ID       string `json:"id"`
	Activity string `json:"activity"`
	User     string `json:"user"`
}

// errBusy says that the lock was not had in time.
var errBusy = errors.New("the lock was not free in time")

// groupShop is what a seller works with.
type groupShop struct {
	schema  string
	pool    *pgxpool.Pool
	redis   *redis.Client
	nats    *nats.Conn
	settled prometheus.Counter
}

// The tables have the columns that the judge reads, in the names of the product.
const groupTables = `
create table skus (activity_id text primary key, total integer not null, stock integer not null);
create table orders (id uuid primary key, activity_id text not null, user_id text not null,
                     quantity integer not null default 1, status text not null default 'confirmed');
`

func newGroupsServeCommand() *cobra.Command {
	var group string
	cmd := &cobra.Command{
		Use: "serve", Short: "One of the groups A, B and C as a service", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveGroup(cmd.Context(), group) },
	}
	cmd.Flags().StringVar(&group, "group", "", "A, B or C")
	return cmd
}

// serveGroup serves until ctx ends, configured by the environment of "seckill serve".
func serveGroup(ctx context.Context, group string) error {
	shop := &groupShop{schema: os.Getenv("SECKILL_NAMESPACE")}
	if err := shop.open(ctx); err != nil {
		return fmt.Errorf("group %s: %w", group, err)
	}
	defer shop.close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	shop.register(registry)
	var s seller
	switch group {
	case "A":
		s = noLock{shop}
	case "B":
		s = &expiringLock{shop: shop}
	case "C":
		q, err := openQueue(ctx, shop)
		if err != nil {
			return fmt.Errorf("group C: %w", err)
		}
		defer q.close()
		s = q
	default:
		return fmt.Errorf("there is no group %q to serve", group)
	}
	return serveSeller(ctx, shop, s, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

func (g *groupShop) open(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("SECKILL_POSTGRES_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = groupPool
	config.ConnConfig.RuntimeParams["search_path"] = g.schema
	if g.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if _, err := g.pool.Exec(ctx, "create schema "+pgx.Identifier{g.schema}.Sanitize()); err != nil {
		return fmt.Errorf("create schema %s: %w", g.schema, err)
	}
	if _, err := g.pool.Exec(ctx, groupTables, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	options, err := redis.ParseURL(os.Getenv("SECKILL_REDIS_URL"))
	if err != nil {
		return err
	}
	g.redis = redis.NewClient(options)
	g.nats, err = nats.Connect(os.Getenv("SECKILL_NATS_URL"))
	return err
}

func (g *groupShop) close() {
	g.nats.Close()
	_ = g.redis.Close()
	g.pool.Close()
}

func (g *groupShop) key(name string) string { return g.schema + ":" + name }

// register uses the names of the product, so that the same eyes read them.
func (g *groupShop) register(r prometheus.Registerer) {
	settled := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "seckill_settle_total", Help: "Orders in the database."}, []string{"outcome"})
	g.settled = settled.WithLabelValues("confirmed")
	r.MustRegister(settled, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "seckill_ledger_pool_waits_total", Help: "Times that no connection was free.",
	}, func() float64 { return float64(g.pool.Stat().EmptyAcquireCount()) }))
}

// put begins a sale.
func (g *groupShop) put(ctx context.Context, activity string, units int64) error {
	if err := g.redis.Set(ctx, g.key("stock:"+activity), units, 0).Err(); err != nil {
		return err
	}
	_, err := g.pool.Exec(ctx, `insert into skus values ($1, $2, $2)`, activity, units)
	return err
}

func serveSeller(ctx context.Context, shop *groupShop, s seller, metrics http.Handler) error {
	public, admin := http.NewServeMux(), http.NewServeMux()
	public.HandleFunc("POST /v1/activities/{activity}/orders", func(w http.ResponseWriter, r *http.Request) {
		sellOne(w, r, s)
	})
	admin.Handle("GET /metrics", metrics)
	admin.HandleFunc("PUT /sales/{activity}", func(w http.ResponseWriter, r *http.Request) {
		var units int64
		err := json.NewDecoder(r.Body).Decode(&units)
		if err == nil {
			err = shop.put(r.Context(), r.PathValue("activity"), units)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	ended := make(chan error, 2)
	var where [2]net.Addr
	for i, handler := range []http.Handler{public, admin} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		defer func() { _ = server.Close() }()
		go func() { ended <- server.Serve(listener) }()
		where[i] = listener.Addr()
	}
	fmt.Printf("ready http=%s admin=%s\n", where[0], where[1])
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

func sellOne(w http.ResponseWriter, r *http.Request, s seller) {
	var body struct{ SKU string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), groupTimeout)
	defer cancel()
	order := groupOrder{ID: id.String(), Activity: r.PathValue("activity"), User: r.Header.Get("X-User-ID")}
	sold, err := s.sell(ctx, order)
	status, problem := http.StatusAccepted, ""
	switch {
	case errors.Is(err, errBusy):
		status, problem = http.StatusServiceUnavailable, "overloaded"
	case err != nil:
		status, problem = http.StatusServiceUnavailable, "outcome-unknown"
	case !sold:
		status, problem = http.StatusConflict, "sold-out"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if problem != "" {
		fmt.Fprintf(w, `{"type":"/problems/%s"}`, problem)
		return
	}
	fmt.Fprintf(w, `{"order_id":%q,"status":"accepted"}`, order.ID)
}

const groupTimeout = 5 * time.Second // of a request; the product gives 3
