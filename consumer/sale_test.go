package consumer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

const partitions = 16

// sale is the whole system in one process, on the real servers, in a namespace of
// its own: buyers ask over HTTP, workers are started by the test.
type sale struct {
	t         testing.TB
	servers   *stack.Stack
	namespace string
	redis     *redis.Client
	nats      *nats.Conn
	pool      *pgxpool.Pool
	gate      *admission.Gate
	log       *admission.Log
	ledger    *consumer.Ledger
	service   *admission.Service
	http      *httptest.Server
	client    *http.Client
	registry  *prometheus.Registry // of admission
	logger    *slog.Logger
}

// saleOptions change what a sale is set up with. Zero values: the shared servers,
// reached directly.
type saleOptions struct {
	servers     *stack.Stack
	postgresURL string // of a proxy, as the next two
	redisURL    string
	natsURL     string
	poolSize    int32
	partitions  int // default 16
}

func newSale(t testing.TB, o saleOptions) *sale {
	t.Helper()
	if o.servers == nil {
		o.servers = stacktest.Get(t)
	}
	if o.postgresURL == "" {
		o.postgresURL = o.servers.PostgresURL()
	}
	if o.redisURL == "" {
		o.redisURL = o.servers.RedisURL()
	}
	if o.natsURL == "" {
		o.natsURL = o.servers.NATSURL()
	}
	s := &sale{t: t, servers: o.servers, namespace: stacktest.Namespace(t), logger: testLogger(t)}
	ctx := t.Context()
	s.redis = openRedis(t, o.redisURL)
	var err error
	s.nats, err = nats.Connect(o.natsURL, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	must(t, err)
	t.Cleanup(s.nats.Close)
	if o.partitions == 0 {
		o.partitions = partitions
	}
	if o.poolSize == 0 {
		o.poolSize = 40
	}
	s.pool, err = consumer.OpenPool(ctx, o.postgresURL, s.namespace, o.poolSize)
	must(t, err)
	t.Cleanup(s.pool.Close)
	_, err = consumer.Migrate(ctx, s.pool, s.namespace)
	must(t, err)
	s.gate = admission.NewGate(s.redis, s.namespace)
	s.ledger = consumer.NewLedger(s.pool)
	must(t, s.ledger.Join(ctx, "etcd", o.partitions))
	s.log, err = admission.OpenLog(ctx, s.nats, admission.LogConfig{
		Namespace: s.namespace, Partitions: o.partitions, Replicas: 1, MaxBytes: 256 << 20, MaxAge: time.Hour,
	})
	must(t, err)
	s.registry = prometheus.NewRegistry()
	s.service = admission.NewService(s.gate, s.log, s.ledger, admission.Config{Metrics: admission.NewMetrics(s.registry), Logger: s.logger})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.service.Close(ctx); err != nil {
			t.Errorf("close the service: %v", err)
		}
	})
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s.http = httptest.NewServer(admission.NewHandler(s.service, admission.HTTPConfig{
		Identify: admission.HeaderIdentity(trusted), Timeout: 15 * time.Second, Version: "test", Logger: s.logger, PaymentSecrets: [][]byte{paymentKey},
	}))
	t.Cleanup(s.http.Close)
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: 20 * time.Second}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func openRedis(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	must(t, err)
	o.ContextTimeoutEnabled, o.MaxRetries = true, 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// testLogger writes to the test's output, until the test is over.
func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes an activity into the ledger, as a draft.
func (s *sale) put(id string, a admission.Activity) {
	s.t.Helper()
	a.ID = id
	_, err := s.ledger.Put(s.t.Context(), a)
	must(s.t, err)
}

func units(sku string, total, limit int64) admission.SKU {
	return admission.SKU{ID: sku, Total: total, LimitPerUser: limit, Price: 100}
}

// open puts and opens an activity.
func (s *sale) open(id string, skus ...admission.SKU) {
	s.t.Helper()
	s.put(id, admission.Activity{SKUs: skus})
	s.openGate(id)
}

func (s *sale) openGate(id string) {
	s.t.Helper()
	_, err := s.ledger.SetState(s.t.Context(), id, admission.Open)
	must(s.t, err)
	s.rebuiltBy(id, func() error {
		_, err := s.rebuild().Run(s.t.Context(), id)
		return err
	})
}

// rebuiltBy waits for a rebuild that runs without the lease on it: on a busy machine a
// worker may take it for dead and begin one of its own, which is as good.
func (s *sale) rebuiltBy(id string, rebuild func() error) {
	s.t.Helper()
	err := rebuild()
	if !errors.Is(err, admission.ErrSuperseded) {
		must(s.t, err)
		return
	}
	eventually(s.t, "the newer rebuild has opened the gate", func() (bool, string) {
		a, err := s.ledger.Activity(s.t.Context(), id)
		if err != nil {
			return false, err.Error()
		}
		view, err := s.gate.View(s.t.Context(), id)
		return err == nil && a.Epoch > 0 && view.Ready(a.LastEpoch), fmt.Sprint(view, err)
	})
}

func (s *sale) rebuild() *admission.Rebuild {
	return &admission.Rebuild{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger}
}

// workerOptions of a worker; zero values: the sale's stores and etcd leases.
type workerOptions struct {
	instance string
	locks    string // namespace of its leases
	backend  string // of its leases
	log      *admission.Log
	ackWait  time.Duration
	metrics  *consumer.Metrics
	pace     *consumer.Pace
}

// startWorker starts a worker and returns the function that stops it.
func (s *sale) startWorker(o workerOptions) (stop func()) {
	s.t.Helper()
	if o.instance == "" {
		o.instance = "worker"
	}
	if o.backend == "" {
		o.backend = "etcd"
	}
	if o.locks == "" {
		o.locks = s.namespace
	}
	if o.log == nil {
		o.log = s.log
	}
	if o.ackWait == 0 {
		o.ackWait = 15 * time.Second
	}
	if o.metrics == nil {
		o.metrics = consumer.NewMetrics(nil)
	}
	leases, err := lockprovider.Open(s.t.Context(), lockprovider.Config{
		Backend: o.backend, EtcdEndpoints: []string{s.servers.EtcdEndpoint()}, RedisURL: s.servers.RedisURL(), Namespace: o.locks,
		TTL: 3 * time.Second, Instance: o.instance, Logger: s.logger,
	})
	must(s.t, err)
	dead, err := consumer.OpenDeadLetters(s.t.Context(), s.log.JetStream(), s.namespace, 1)
	must(s.t, err)
	w := &consumer.Worker{
		Instance: o.instance, Ledger: s.ledger, Log: o.log, Gate: s.gate, Dead: dead, Leases: leases,
		AckWait: o.ackWait, Pace: o.pace, Metrics: o.metrics, Logger: s.logger,
	}
	gates := &consumer.Rebuilder{Rebuild: s.rebuild(), Ledger: s.ledger, Leases: leases, Logger: s.logger}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = w.Run(ctx) })
	work.Go(func() { gates.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = leases.Close(ctx)
	})
	s.t.Cleanup(stop)
	return stop
}

// startSweep sweeps until the test ends.
func (s *sale) startSweep() {
	sweep := &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = sweep.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done })
}

// answer is what a buyer got.
type answer struct {
	status   int
	code     string // last part of the problem's type
	order    string
	state    string // the order's status
	orders   []string
	location string
	header   http.Header
	body     string
}

func (a answer) String() string { return fmt.Sprintf("%d %s %s", a.status, a.code, a.order) }

// ask is one request of a buyer.
type ask struct {
	activity, user, key string
	body                string
}

func one(activity, user string) ask {
	return ask{activity: activity, user: user, body: `{"sku":"s1","quantity":1}`}
}

// post places an order. A request that gets no answer fails the test.
func (s *sale) post(a ask) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.http.URL+"/v1/activities/"+a.activity+"/orders", strings.NewReader(a.body))
	must(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User-ID", a.user)
	if a.key != "" {
		req.Header.Set("Idempotency-Key", a.key)
	}
	return s.do(req)
}

func (s *sale) get(path, user string) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.http.URL+path, nil)
	must(s.t, err)
	req.Header.Set("X-User-ID", user)
	return s.do(req)
}

func (s *sale) do(req *http.Request) answer {
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
		return answer{}
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return readAnswer(resp, data)
}

func readAnswer(resp *http.Response, data []byte) answer {
	var body struct {
		Type   string          `json:"type"`
		ID     string          `json:"order_id"`
		Status json.RawMessage `json:"status"` // of an order a string, of a problem a number
		Orders json.RawMessage `json:"orders"`
	}
	_ = json.Unmarshal(data, &body)
	a := answer{status: resp.StatusCode, order: body.ID, location: resp.Header.Get("Location"), header: resp.Header, body: string(data)}
	a.code = body.Type[strings.LastIndex(body.Type, "/")+1:]
	a.state = string(bytes.Trim(body.Status, `"`))
	_ = json.Unmarshal(body.Orders, &a.orders)
	return a
}

// crowd sends all requests at once, over at most 256 connections, and returns the
// answers in their order.
func (s *sale) crowd(asks []ask) []answer {
	s.t.Helper()
	answers := make([]answer, len(asks))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(256, len(asks)) {
		wg.Go(func() {
			for i := range next {
				answers[i] = s.post(asks[i])
			}
		})
	}
	for i := range asks {
		next <- i
	}
	close(next)
	wg.Wait()
	return answers
}

// count sorts answers by status and code, such as "202" or "409 sold-out".
func count(answers []answer) map[string]int {
	n := map[string]int{}
	for _, a := range answers {
		n[strings.TrimSpace(fmt.Sprint(a.status, " ", a.code))]++
	}
	return n
}

// accepted is the distinct ids that were answered with 202.
func accepted(answers []answer) []string {
	var ids []string
	for _, a := range answers {
		if a.status == http.StatusAccepted {
			ids = append(ids, a.order)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// eventually polls until ok, for a time that only a broken system needs: often at first,
// then now and then, since who waits for long shares the machine with others.
func eventually(t testing.TB, what string, ok func() (bool, string)) {
	t.Helper()
	began, again := time.Now(), 10*time.Millisecond
	for {
		done, seen := ok()
		if done {
			return
		}
		switch waited := time.Since(began); {
		case waited > time.Minute:
			t.Fatalf("not within a minute: %s; last seen: %s", what, seen)
		case waited > 3*time.Second:
			again = 100 * time.Millisecond
		}
		time.Sleep(again)
	}
}
