package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// The best case of group C on two cores: more connections wait for each other at the one row of a hot SKU, fewer
// leave the disk idle; a prefetch below some hundred lets the consumer wait for the log.
const (
	groupPool     = 8
	queueWorkers  = 8
	queuePrefetch = 512
	buyerLockTTL  = 10 * time.Second
)

// queue is group C: a lock of the buyer against double taps, a script that takes one unit, one message an order;
// behind it workers that settle one order in one transaction. It does not oversell: the script and the guard of
// the UPDATE see to that.
type queue struct {
	*groupShop
	js     jetstream.JetStream
	stream string
	stop   context.CancelFunc
	work   sync.WaitGroup
}

var takeScript = redis.NewScript(`
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -1 end
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 0 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 1`)

func openQueue(ctx context.Context, shop *groupShop) (*queue, error) {
	q := &queue{groupShop: shop, stream: strings.ToUpper(shop.schema)}
	if _, err := shop.pool.Exec(ctx, `create unique index on orders (activity_id, user_id)`); err != nil {
		return nil, fmt.Errorf("index the orders: %w", err)
	}
	var err error
	if q.js, err = jetstream.New(shop.nats); err != nil {
		return nil, err
	}
	stream, err := q.js.CreateStream(ctx, jetstream.StreamConfig{Name: q.stream, Subjects: []string{shop.schema + ".orders.>"}})
	if err != nil {
		return nil, fmt.Errorf("create stream %s: %w", q.stream, err)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "settle", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2 * queuePrefetch,
	})
	if err != nil {
		return nil, fmt.Errorf("create the consumer: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(queuePrefetch))
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	q.stop = func() { messages.Stop(); stop() }
	for range queueWorkers {
		q.work.Go(func() { q.settleAll(working, messages) })
	}
	return q, nil
}

func (q *queue) close() {
	q.stop()
	q.work.Wait()
}

func (q *queue) sell(ctx context.Context, o groupOrder) (bool, error) {
	lock := q.key("lock:" + o.Activity + ":" + o.User)
	err := q.redis.SetArgs(ctx, lock, o.ID, redis.SetArgs{Mode: "NX", TTL: buyerLockTTL}).Err()
	if errors.Is(err, redis.Nil) {
		return false, errBusy
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unlockScript.Run(context.WithoutCancel(ctx), q.redis, []string{lock}, o.ID).Err() }()
	keys := []string{q.key("stock:" + o.Activity), q.key("buyers:" + o.Activity)}
	taken, err := takeScript.Run(ctx, q.redis, keys, o.User).Int()
	if err != nil || taken < 1 {
		return false, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	_, err = q.js.Publish(ctx, q.schema+".orders."+o.Activity, data, jetstream.WithMsgID(o.ID))
	return err == nil, err
}

func (q *queue) settleAll(ctx context.Context, messages jetstream.MessagesContext) {
	for {
		m, err := messages.Next()
		if err != nil {
			return // stopped
		}
		var o groupOrder
		if json.Unmarshal(m.Data(), &o) != nil || q.settle(ctx, o) != nil {
			_ = m.NakWithDelay(50 * time.Millisecond)
			continue
		}
		_ = m.Ack()
	}
}

// settle puts the row of the hot SKU last, so that it is locked for the shortest time.
func (q *queue) settle(ctx context.Context, o groupOrder) error {
	inserted := false
	err := pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into orders (id, activity_id, user_id) values ($1, $2, $3) on conflict do nothing`, o.ID, o.Activity, o.User)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if tag, err = tx.Exec(ctx, `update skus set stock = stock - 1 where activity_id = $1 and stock > 0`, o.Activity); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errors.New("nothing is left")
		}
		inserted = true
		return nil
	})
	if err == nil && inserted {
		q.settled.Inc()
	}
	return err
}
