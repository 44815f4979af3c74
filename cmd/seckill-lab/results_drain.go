package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
)

const (
	drainEvery = 25 * time.Millisecond
	drainWait  = 10 * time.Minute
	// fillAttempts bounds the making up for refused orders.
	fillAttempts = 5
	// bareOrders are in one transaction of the bare loop, in messages of bareBatch.
	bareOrders = 500
	bareBatch  = 50
)

// drainRounds are orders/s, of each round.
type drainRounds struct{ worker, already, bare, bareAlready, queue []float64 }

// backlogSale is a service that only takes orders, so that they wait until a worker comes.
type backlogSale struct {
	*measuring
	stand  *stand
	api    *service
	throng *throng
	orders int64 // in the log
	unsure int64 // perhaps there too
}

const backlogActivity = "backlog"

func (m *measuring) openBacklog(ctx context.Context) (*backlogSale, error) {
	s, err := openServers(ctx, m.words)
	if err != nil {
		return nil, err
	}
	b := &backlogSale{measuring: m, stand: s}
	if b.api, err = s.serve(ctx, m.options.program, "etcd", "SECKILL_ROLES=api", "SECKILL_BACKLOG_LIMIT=10000000"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := b.api.openSKUs(ctx, backlogActivity, "Results", []string{saleSKUName}, fullUnits, 1); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.throng = newThrong(offersOf([]string{backlogActivity}, []string{saleSKUName}), 1<<30, 0, 1)
	return b, nil
}

func (b *backlogSale) close() error { return errors.Join(b.api.stop(), b.stand.close()) }

// fill puts so many orders into the log. Who was turned away on a machine that was busy for a moment is made up
// for by others.
func (b *backlogSale) fill(ctx context.Context, orders int64) error {
	t := &target{public: "http://" + b.api.public, activities: []string{backlogActivity}, skus: []string{saleSKUName}}
	o := b.load(0, time.Second, b.throng)
	var last *loadResult
	for range fillAttempts {
		o.requests = orders
		out, err := sendOnly(ctx, io.Discard, t, o)
		if err != nil {
			return err
		}
		got := out.heard.accepted.Load()
		last = out.load
		b.orders += got
		b.unsure += out.load.Unknown + out.load.Count("503 outcome-unknown")
		if orders -= got; orders <= 0 {
			return nil
		}
	}
	return fmt.Errorf("%d orders were not admitted after %d attempts: %d times %s", orders, fillAttempts, last.Kinds[0].Count, last.Kinds[0].Name)
}

// drain starts a worker, waits until it has settled so many, and stops it. With already they are decided before.
func (b *backlogSale) drain(ctx context.Context, orders int64, already bool) (rate float64, mostMemory int64, err error) {
	began := time.Now()
	worker, err := b.stand.serve(ctx, b.options.program, "etcd", "SECKILL_ROLES=worker")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, worker.stop()) }()
	outcome := "confirmed"
	if already {
		outcome = "already"
	}
	if rate, err = drainRate(ctx, "http://"+worker.admin, outcome, orders, began); err != nil {
		return 0, 0, err
	}
	_, mostMemory, err = residentMemory(worker.process.Pid)
	return rate, mostMemory, err
}

// drainRate looks at a worker until it has passed so many orders. The rate counts from the first that were seen,
// so that the worker's start is no part of it.
func drainRate(ctx context.Context, admin, outcome string, orders int64, began time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	first, firstAt := int64(0), began
	for {
		families, err := readMetrics(ctx, admin)
		if err != nil {
			return 0, err
		}
		passed := int64(0)
		for _, m := range families["seckill_settle_total"].GetMetric() {
			if labelOf(m, "outcome") == outcome {
				passed += int64(m.GetCounter().GetValue())
			}
		}
		switch now := time.Now(); {
		case passed >= orders:
			return perSecond(passed-first, now.Sub(firstAt)), nil
		case passed > 0 && first == 0:
			first, firstAt = passed, now
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d orders were passed after %v", passed, orders, drainWait)
		case <-time.After(drainEvery):
		}
	}
}

// rewind has the next worker find the whole log again, with every order decided.
func (b *backlogSale) rewind(ctx context.Context) error {
	db, err := pgx.Connect(ctx, b.stand.servers.PostgresURL())
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, `update seckill.partitions set settled_seq = 0`); err != nil {
		return fmt.Errorf("rewind the ledger: %w", err)
	}
	nc, err := nats.Connect(b.stand.servers.NATSURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "SECKILL_ORDERS")
	if err != nil {
		return err
	}
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := stream.DeleteConsumer(ctx, name); err != nil {
			return fmt.Errorf("delete consumer %s: %w", name, err)
		}
	}
	return names.Err()
}

func (m *measuring) measureDrains(ctx context.Context) (err error) {
	b, err := m.openBacklog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	h, err := openHouse(ctx, b.stand, "C", groupOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for round := range m.rounds {
		if err := b.drainRound(ctx, h, round); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		d := &m.drains
		fmt.Fprintf(m.words, "  round %d: worker %.0f/s, already %.0f/s; bare loop %.0f/s, already %.0f/s; group C %.0f/s\n", round+1,
			d.worker[round], d.already[round], d.bare[round], d.bareAlready[round], d.queue[round])
	}
	m.drainRows()
	return b.judge(ctx)
}

// judge audits the sale after everything.
func (b *backlogSale) judge(ctx context.Context) error {
	r, err := auditByCommand(b.options.program, b.stand.servers.Env("etcd"))(ctx, backlogActivity)
	if err != nil {
		return err
	}
	if !r.OK || !r.AtRest {
		return exitError{3, fmt.Errorf("the audit is not clean: at rest %v, %+v", r.AtRest, r.Violations)}
	}
	if live := r.Activities[0].SKUs[0].Live; live < b.orders || live > b.orders+b.unsure {
		return exitError{3, fmt.Errorf("%d orders are live, %d were admitted and %d perhaps", live, b.orders, b.unsure)}
	}
	return nil
}

func (b *backlogSale) drainRound(ctx context.Context, h *groupHouse, round int) error {
	d := &b.drains
	if err := b.fill(ctx, b.backlog); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	rate, _, err := b.drain(ctx, b.backlog, false)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	d.worker = append(d.worker, rate)
	bare, bareAlready, err := bareLoop(ctx, b.stand, fmt.Sprint("bare_", round), b.backlog)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	d.bare, d.bareAlready = append(d.bare, bare), append(d.bareAlready, bareAlready)
	if err := b.rewind(ctx); err != nil {
		return err
	}
	if rate, _, err = b.drain(ctx, b.orders, true); err != nil {
		return fmt.Errorf("worker on what is decided: %w", err)
	}
	d.already = append(d.already, rate)
	if rate, err = b.queueRate(ctx, h, fmt.Sprint("c-", round)); err != nil {
		return fmt.Errorf("group C: %w", err)
	}
	d.queue = append(d.queue, rate)
	return nil
}

// queueRate is the better of group C's settlement under load and of what was left after it.
func (b *backlogSale) queueRate(ctx context.Context, h *groupHouse, sale string) (float64, error) {
	if err := h.put(ctx, sale, fullUnits); err != nil {
		return 0, err
	}
	t := &target{
		public: "http://" + h.services[0].public, admins: []string{"http://" + h.services[0].admin},
		activities: []string{sale}, skus: []string{saleSKUName},
	}
	out, err := sendOnly(ctx, io.Discard, t, b.load(0, b.each, newThrong(t.offers(), 1<<30, 0, 1)))
	if err != nil {
		return 0, err
	}
	last := out.watch.last()
	rate := perSecond(last.settled, out.watch.reached())
	for _, s := range out.watch.samples {
		if s.at > out.load.Elapsed && s.settled < last.settled {
			return max(rate, perSecond(last.settled-s.settled, out.watch.reached()-s.at)), nil
		}
	}
	return rate, nil
}

// bareLoop settles as many orders of one SKU with the same statements in a loop, and then the same again: no log,
// no gate, no lease, nobody else.
func bareLoop(ctx context.Context, s *stand, namespace string, orders int64) (rate, already float64, err error) {
	pool, err := consumer.OpenPool(ctx, s.servers.PostgresURL(), namespace, 2)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	if _, err := consumer.Migrate(ctx, pool, namespace); err != nil {
		return 0, 0, err
	}
	ledger := consumer.NewLedger(pool)
	if err := ledger.Join(ctx, "etcd", 1); err != nil {
		return 0, 0, err
	}
	sku := admission.SKU{ID: saleSKUName, Total: fullUnits, LimitPerUser: 1, Price: 9900}
	if _, err := ledger.Put(ctx, admission.Activity{ID: backlogActivity, SKUs: []admission.SKU{sku}}); err != nil {
		return 0, 0, err
	}
	term, _, err := ledger.Take(ctx, 0, 0, "bare loop")
	if err != nil {
		return 0, 0, err
	}
	portions := barePortions(orders)
	for _, measured := range []*float64{&rate, &already} {
		began := time.Now()
		for _, portion := range portions {
			if _, err := ledger.Settle(ctx, term, portion, portion[len(portion)-1].Seq); err != nil {
				return 0, 0, err
			}
		}
		*measured = perSecond(int64(len(portions)*bareOrders), time.Since(began))
	}
	return rate, already, nil
}

func barePortions(orders int64) (portions [][]consumer.Delivery) {
	seq := uint64(0)
	for range orders / bareOrders {
		var portion []consumer.Delivery
		for range bareOrders / bareBatch {
			batch := admission.NewBatch(backlogActivity, 1)
			for range bareBatch {
				id := admission.NewID()
				batch.Add(admission.Order{ID: id, User: "buyer-" + id, SKU: saleSKUName, Quantity: 1, At: time.Now().UTC()})
			}
			seq++
			portion = append(portion, consumer.Delivery{Batch: batch, Seq: seq, Deliveries: 1})
		}
		portions = append(portions, portion)
	}
	return portions
}

func (m *measuring) drainRows() {
	d := &m.drains
	rate := func(values []float64) string { return count(int64(medianOf(values))) + " orders/s" }
	bare, queue := medianOf(ratios(d.worker, d.bare)), medianOf(ratios(d.worker, d.queue))
	already := medianOf(ratios(d.already, d.worker))
	m.row(resultRow{
		fmt.Sprintf("settlement of a backlog of %s on one SKU", count(m.backlog)), rate(d.worker),
		fmt.Sprintf("the same SQL in a bare loop of %d: %s", bareOrders, rate(d.bare)), fmt.Sprintf("%.2f", bare), "at least 0.5", bare >= 0.5,
	})
	m.row(resultRow{"the same, against group C", rate(d.worker), "group C " + rate(d.queue), fmt.Sprintf("%.1f", queue), "at least 15", queue >= 15})
	m.row(resultRow{
		"orders that are decided already", rate(d.already), fmt.Sprintf("settlement %s (bare loop: %s against %s)", rate(d.worker), rate(d.bareAlready), rate(d.bare)),
		fmt.Sprintf("%.2f", already), "at least 1.5", already >= 1.5,
	})
}
