package main

import (
	"context"
	"sync"
	"time"

	"seckill/consumer"
	"seckill/lockprovider"
)

const (
	// mostLive is how many activities are watched.
	mostLive = 50
	// closedEvery is how often a closed activity is looked at again.
	closedEvery = 10 * time.Second
	// partPatience bounds the reading of one part, storePatience one question to a store
	// whether it answers.
	partPatience, storePatience = 2 * time.Second, time.Second
)

// lookout reads what a live sample shows, one sample at a time.
type lookout struct {
	node   *node
	rates  rates
	leases *lockprovider.Provider // of a process that has none else; nil until it is needed
	closed map[string]liveActivity
}

// look reads all parts side by side; one that fails is named in the sample.
func (l *lookout) look(ctx context.Context) liveSample {
	s := liveSample{
		At: time.Now().UTC(), LockBackend: l.node.config.LockBackend, Errors: []liveError{},
		Process: liveProcess{Instance: l.node.instance, Version: readVersion().Version, Roles: l.node.config.Roles},
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	part := func(name string, read func(context.Context, *liveSample) error) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, partPatience)
			defer cancel()
			if err := read(ctx, &s); err != nil {
				mu.Lock()
				defer mu.Unlock()
				s.Errors = append(s.Errors, liveError{name, oneLine(err.Error())})
			}
		})
	}
	part("metrics", l.readMetrics)
	part("gate", l.readActivities)
	part("log", l.readLog)
	part("locks", l.readLocks)
	part("ledger", l.readPartitions)
	all.Go(func() { l.readStores(ctx, &s) })
	all.Wait()
	s.join()
	return s
}

// readStores asks the stores that hold orders whether they answer.
func (l *lookout) readStores(ctx context.Context, s *liveSample) {
	stores := l.node.stores
	asks := []struct {
		store string
		ask   func(context.Context) error
	}{{"redis", stores.gate.Ping}, {"nats", stores.log.Ping}, {"postgres", stores.ledger.Ping}}
	s.Stores = make([]liveStore, len(asks))
	var all sync.WaitGroup
	for i, a := range asks {
		all.Go(func() { s.Stores[i] = health(ctx, a.store, a.ask) })
	}
	all.Wait()
}

// health asks one store, within a bound.
func health(ctx context.Context, store string, ask func(context.Context) error) liveStore {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	begun := time.Now()
	err := ask(ctx)
	h := liveStore{Store: store, Up: err == nil, MS: milliseconds(time.Since(begun))}
	if err != nil {
		h.Error = oneLine(err.Error())
	}
	return h
}

// readLocks lists the leases, which also says whether the lock store answers.
func (l *lookout) readLocks(ctx context.Context, s *liveSample) error {
	var infos []lockprovider.Info
	var failed error
	h := health(ctx, l.node.config.LockBackend, func(ctx context.Context) error {
		provider, err := l.provider(ctx)
		if err == nil {
			infos, err = provider.List(ctx, "")
		}
		failed = err
		return err
	})
	if l.node.config.LockBackend == backendEtcd {
		s.lockStore = &h
	}
	if failed != nil {
		return failed
	}
	s.Locks = []liveLease{}
	for _, i := range infos {
		s.Locks = append(s.Locks, liveLease{
			Name: i.Name, Owner: i.Owner, Note: i.Note, Token: i.Token, TTLMS: milliseconds(i.TTL), Since: i.Since.UTC(), Waiters: i.Waiters,
		})
	}
	return nil
}

// provider is that of the worker in this process, or one for the samples.
func (l *lookout) provider(ctx context.Context) (*lockprovider.Provider, error) {
	if l.node.leases != nil {
		return l.node.leases, nil
	}
	if l.leases == nil {
		provider, _, err := openLeases(ctx, l.node.config, l.node.config.LockBackend)
		if err != nil {
			return nil, err
		}
		l.leases = provider
	}
	return l.leases, nil
}

// close gives back what the samples have opened.
func (l *lookout) close() {
	if l.leases != nil {
		closeLeases(context.Background(), l.leases)
	}
}

func (l *lookout) readPartitions(ctx context.Context, s *liveSample) error {
	rows, err := l.node.stores.ledger.Partitions(ctx)
	if err != nil {
		return err
	}
	s.Partitions = []livePartition{}
	for _, row := range rows {
		s.Partitions = append(s.Partitions, livePartition{Partition: row.Partition, Term: row.Term, Holder: row.Holder, SettledSeq: row.Settled})
	}
	return nil
}

// readLog reads the order log, its consumers, and what the gauges of a worker show.
func (l *lookout) readLog(ctx context.Context, s *liveSample) error {
	n := l.node
	sums, err := (&sampler{stores: n.stores, config: n.config}).look(ctx)
	if err != nil {
		return err
	}
	stream, err := n.stores.log.JetStream().Stream(ctx, n.stores.log.StreamName())
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	log := &liveLog{
		LastSeq: state.LastSeq, Messages: state.Msgs, UndecidedOrders: sums.undecided, OldestSeconds: sums.oldest.Seconds(),
		DeadLetters: sums.dead, ReleaseDue: sums.due, EventsBacklog: sums.events, EventsSeconds: sums.eventsAge.Seconds(),
	}
	for _, orders := range sums.backlog {
		log.BacklogOrders += orders
	}
	s.deliveries = map[string]LiveDelivery{}
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		s.deliveries[info.Name] = LiveDelivery{Unread: info.NumPending, InFlight: info.NumAckPending, Redelivered: info.NumRedelivered}
	}
	s.Log, s.backlog = log, sums.backlog
	return consumers.Err()
}

// join puts together what several parts have read.
func (s *liveSample) join() {
	if s.lockStore != nil {
		s.Stores = append(s.Stores, *s.lockStore)
	}
	leases := map[string]*liveLease{}
	for i := range s.Locks {
		leases[s.Locks[i].Name] = &s.Locks[i]
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		p.Lease = leases[consumer.PartitionLock(p.Partition)]
		p.LiveDelivery = s.deliveries[consumer.ConsumerName(p.Partition)]
		if p.Partition < len(s.backlog) {
			p.Backlog = s.backlog[p.Partition]
		}
		if s.Log != nil {
			s.Log.Unread += p.Unread
			s.Log.InFlight += p.InFlight
			s.Log.Redelivered += p.Redelivered
		}
	}
	for _, a := range s.Activities {
		for _, sku := range a.SKUs {
			if a.Exact && sku.Difference != 0 || sku.Stock < 0 || sku.Live > sku.Total || sku.Stock+sku.Live != sku.Total {
				s.Violations++
			}
		}
	}
}
