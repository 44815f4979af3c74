package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
	"seckill/lockprovider"
)

// Bounds of the HTTP servers. A write may take as long as the longest wait for an
// order, and a little more.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 40 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
)

// headroomSize is memory that is reserved and never touched, so it takes none, and the
// garbage collector counts it: it runs when the heap has doubled, and a node that keeps
// a few MB would else collect several times a second just when most is asked of it.
const headroomSize = 32 << 20

func newServeCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve buyers (role api) and settle their orders (role worker)",
		Long: `Serve buyers (role api) and settle their orders (role worker).

Prints "ready http=HOST:PORT admin=HOST:PORT" when it serves. SIGTERM drains it
within ten seconds: waiting requests are answered, batches in hand finished, the
partitions given to other workers.`,
		Example: `  seckill serve
  seckill serve --roles worker --lock-backend redis`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			if err := c.checkServe(); err != nil {
				return err
			}
			return p.serve(cmd.Context(), c)
		},
	}
	settingFlags(cmd)
	listSettings(cmd)
	return cmd
}

// node is one serving process.
type node struct {
	config   Config
	stores   *stores
	registry *prometheus.Registry
	tracing  *admission.Tracing // nil: none
	logger   *slog.Logger
	instance string

	leaseTracer lockprovider.Tracer // nil: none

	tellDurability func() // logs what a 202 is worth

	jobs *jobs // what operators have begun here
	live *live // what their consoles watch

	service *admission.Service     // role api, else nil
	leases  *lockprovider.Provider // role worker, else nil
	worker  *nats.Conn             // role worker, else nil
}

func (p *program) serve(ctx context.Context, c Config) error {
	headroom := make([]byte, headroomSize)
	defer runtime.KeepAlive(headroom)
	registry := newRegistry()
	logger, endLog := newLogger(p.stderr, registry)
	defer endLog()
	slog.SetDefault(logger)
	s, err := openStores(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.join(ctx, c); err != nil {
		return err
	}
	n := &node{
		config: c, stores: s, registry: registry, logger: logger, instance: instanceName(),
		tellDurability: warnDurability(ctx, c, logger),
	}
	endTraces, err := n.startTraces(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	registerPool(n.registry, s.pool)
	return n.run(ctx, p)
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	v := readVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_build_info", Help: "Which build runs; always 1.",
		ConstLabels: prometheus.Labels{"version": v.Version, "commit": v.Commit, "go": v.Go},
	})
	info.Set(1)
	r.MustRegister(info)
	return r
}

// run serves until ctx ends or a server fails, and drains.
func (n *node) run(ctx context.Context, p *program) error {
	ctx, fail := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	stop := func() {}
	defer func() { fail(nil); work.Wait(); stop() }() // also after a start that fails half-way
	if n.config.hasRole(roleWorker) {
		end, err := n.startWorker(ctx, &work)
		if err != nil {
			return err
		}
		stop = end
	}
	identify, err := n.identify(ctx, &work)
	if err != nil {
		return err
	}
	funnel, err := n.funnel(ctx, &work)
	if err != nil {
		return err
	}
	public, err := n.listenPublic(ctx)
	if err != nil {
		return err
	}
	admin, err := n.listen(ctx, "ADMIN", n.config.AdminAddr, n.config.AdminTLSCert, n.config.AdminTLSKey)
	if err != nil {
		return err
	}
	n.startConsole(ctx, &work)
	servers := []*http.Server{n.serveOn(admin, n.adminHandler(), fail)}
	where := "-"
	if public != nil {
		servers = append(servers, n.serveOn(public, n.publicHandler(identify, funnel), fail))
		where = public.Addr().String()
	}
	n.tellDurability()
	if _, err := fmt.Fprintf(p.stdout, "ready http=%s admin=%s\n", where, admin.Addr()); err != nil {
		return fmt.Errorf("say that the service is ready: %w", err)
	}
	<-ctx.Done()
	n.logger.Info("draining")
	err = n.drain(servers)
	work.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// listen opens one of the two addresses, with TLS if there is a certificate for it.
func (n *node) listen(ctx context.Context, name, addr, certPath, keyPath string) (net.Listener, error) {
	secure, err := openTLS(certPath, keyPath, n.logger)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another with SECKILL_%s_ADDR", addr, err, name)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	return l, nil
}

func (n *node) listenPublic(ctx context.Context) (net.Listener, error) {
	if !n.config.hasRole(roleAPI) {
		return nil, nil
	}
	n.service = admission.NewService(n.stores.gate, n.stores.log, n.stores.ledger, admission.Config{
		QueueLimit: n.config.QueueLimit, BacklogLimit: n.config.BacklogLimit,
		Breaker: admission.BreakerConfig{Percent: n.config.BreakerPercent, Slow: n.config.BreakerSlow},
		Metrics: admission.NewMetrics(n.registry), Tracing: n.tracing, Logger: n.logger,
	})
	return n.listen(ctx, "HTTP", n.config.HTTPAddr, n.config.HTTPTLSCert, n.config.HTTPTLSKey)
}

// serveOn serves until Shutdown; the end of a server that was not asked to end is
// the end of the process.
func (n *node) serveOn(l net.Listener, h http.Handler, fail context.CancelCauseFunc) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: serverErrors(n.logger),
	}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serve on %s: %w", l.Addr(), err))
		}
	}()
	return s
}

func (n *node) publicHandler(identify admission.Identify, funnel *admission.Funnel) http.Handler {
	return allowOrigins(n.config.CORSOrigins, admission.NewHandler(n.service, admission.HTTPConfig{
		Identify: identify, Funnel: funnel, Timeout: n.config.HTTPTimeout, Version: readVersion().Version, Logger: n.logger,
		PaymentSecrets: keyBytes(n.config.PaymentSecrets),
	}))
}

// drain answers who is waiting and stops the servers.
func (n *node) drain(servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime-time.Second)
	defer cancel()
	var errs []error
	if n.service != nil {
		errs = append(errs, n.service.Close(ctx))
	}
	for _, s := range servers {
		errs = append(errs, s.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// startConsole does the work behind the operators' routes until ctx ends.
func (n *node) startConsole(ctx context.Context, work *sync.WaitGroup) {
	n.jobs = newJobs()
	l := &lookout{node: n, rates: rates{gatherer: n.registry}}
	n.live = newLive(l.look, n.jobs, n.logger)
	work.Go(func() { n.jobs.run(ctx) })
	work.Go(func() { n.live.run(ctx); l.close() })
}

// startWorker settles orders and sweeps until ctx ends. The function it returns
// closes what the worker used; call it when the work is done.
func (n *node) startWorker(ctx context.Context, work *sync.WaitGroup) (func(), error) {
	start, cancel := context.WithTimeout(ctx, n.config.StartTimeout)
	defer cancel()
	nc, log, err := openLog(start, n.config, "seckill worker")
	if err != nil {
		return nil, err
	}
	dead, err := consumer.OpenDeadLetters(start, log.JetStream(), n.config.Namespace, n.config.LogReplicas)
	if err != nil {
		nc.Close()
		return nil, err
	}
	published := n.config.events()
	published.Tracing = n.tracing
	events, err := consumer.NewEvents(n.stores.ledger, nc, published, n.logger)
	if err != nil {
		nc.Close()
		return nil, err
	}
	if err := events.Create(start); err != nil {
		n.logger.Warn("the stream of events is not there; events wait in the ledger until it is", "error", err)
	}
	leases, err := n.config.leases(n.config.LockBackend)
	if err == nil {
		leases.Instance, leases.Registerer, leases.Logger, leases.Tracer = n.instance, n.registry, n.logger, n.leaseTracer
		n.leases, err = reachLeases(start, leases)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	n.worker = nc
	w := &consumer.Worker{
		Instance: n.instance, Ledger: n.stores.ledger, Log: log, Gate: n.stores.gate, Dead: dead,
		Leases: n.leases, AckWait: n.config.LogAckWait, Pace: consumer.NewPace(n.config.SettleEvery), Metrics: consumer.NewMetrics(n.registry), Tracing: n.tracing, Logger: n.logger,
	}
	sweep := &admission.Sweep{Gate: n.stores.gate, Log: log, Ledger: n.stores.ledger, Logger: n.logger}
	gates := &consumer.Rebuilder{
		Rebuild: &admission.Rebuild{Gate: n.stores.gate, Log: log, Ledger: n.stores.ledger, Logger: n.logger},
		Ledger:  n.stores.ledger, Leases: n.leases, Logger: n.logger,
	}
	look := &sampler{stores: n.stores, config: n.config, gauges: newGauges(), suspicions: map[string]suspicion{}, logger: n.logger}
	n.registry.MustRegister(look.gauges)
	work.Go(func() { _ = w.Run(ctx) })
	work.Go(func() { look.run(ctx) })
	work.Go(func() { gates.Run(ctx) })
	work.Go(func() { n.underLease(ctx, "job/sweep", sweep.Run) })
	release := &consumer.Release{Ledger: n.stores.ledger, Gate: n.stores.gate, Logger: n.logger}
	work.Go(func() { n.underLease(ctx, "job/release", release.Run) })
	expiry := &consumer.Expiry{Ledger: n.stores.ledger, Gate: n.stores.gate, Log: log, Tracing: n.tracing, Logger: n.logger}
	work.Go(func() { n.underLease(ctx, "job/expiry", expiry.Run) })
	buyer := admission.NewService(n.stores.gate, log, n.stores.ledger, admission.Config{Logger: n.logger})
	late := &consumer.LatePayments{Ledger: n.stores.ledger, Service: buyer, Logger: n.logger}
	work.Go(func() { n.underLease(ctx, "job/payments", late.Run) })
	work.Go(func() { n.underLease(ctx, "job/events", events.Run) })
	return func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := n.leases.Close(stop); err != nil {
			n.logger.Warn("leases are left to expire", "error", err)
		}
		_ = buyer.Close(stop) // what was cut off is finished by whoever has the lease next
		nc.Close()
	}, nil
}

// underLease keeps a job running that one process at a time needs to do.
func (n *node) underLease(ctx context.Context, name string, job func(context.Context) error) {
	for ctx.Err() == nil {
		err := lockprovider.Do(ctx, n.leases, name, func(ctx context.Context, _ *lockprovider.Lease) error {
			return job(ctx)
		}, lockprovider.WithPurpose("job"))
		if ctx.Err() != nil {
			return
		}
		n.logger.Warn("job interrupted; it is taken up again", "job", name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// instanceName tells the processes of an installation apart, also after a restart.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}
