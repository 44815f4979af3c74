// Command shop is an example of what stands behind the sale: it keeps a table with
// the newest status of each order, from the stream of events. Copy it and put the
// shop's own work into [keep]; deploy/guides/events.md says what the events promise.
//
// It needs nothing of the sale but the stream: a durable consumer remembers how far it
// is, and the table's own transaction makes an event that comes again harmless.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// event is what this shop needs of an event.
type event struct {
	Sequence string `json:"sequence"`
	Data     struct {
		Order  string `json:"order_id"`
		User   string `json:"user"`
		Status string `json:"status"`
	} `json:"data"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// run reads events until ctx ends or a store does not answer; whoever started it then
// starts it again.
func run(ctx context.Context) error {
	db, err := pgx.Connect(ctx, os.Getenv("SHOP_POSTGRES_URL"))
	if err != nil {
		return fmt.Errorf("connect with the shop's database: %w; check SHOP_POSTGRES_URL", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, createTable); err != nil {
		return fmt.Errorf("create the shop's table: %w", err)
	}
	nc, err := nats.Connect(os.Getenv("SHOP_NATS_URL"))
	if err != nil {
		return fmt.Errorf("connect with NATS: %w; check SHOP_NATS_URL", err)
	}
	defer nc.Close()
	consumer, err := bind(ctx, nc, os.Getenv("SHOP_NAMESPACE"))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := page(ctx, db, consumer); err != nil {
			return err
		}
	}
	return nil
}

// bind finds or makes the shop's durable consumer of the stream.
func bind(ctx context.Context, nc *nats.Conn, namespace string) (jetstream.Consumer, error) {
	if namespace == "" {
		namespace = "seckill"
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, strings.ToUpper(namespace)+"_EVENTS", jetstream.ConsumerConfig{
		Durable: "shop", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Second,
		// No event is given out while one before it, of a page that was cut off, waits
		// to come again: so they also stay in order.
		MaxAckPending: pageSize,
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w; is a worker of the sale running?", namespace, err)
	}
	return consumer, nil
}

const pageSize = 100

// page takes what is there, up to a hundred events, in one transaction, and only then
// acknowledges. A crash in between brings the events again, which changes nothing.
func page(ctx context.Context, db *pgx.Conn, consumer jetstream.Consumer) error {
	messages, err := consumer.Fetch(pageSize, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		return fmt.Errorf("fetch events: %w", err)
	}
	var taken []jetstream.Msg
	for m := range messages.Messages() {
		taken = append(taken, m)
	}
	if err := messages.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("fetch events: %w", err)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, m := range taken {
			if err := keep(ctx, tx, m.Data()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep %d events: %w", len(taken), err)
	}
	for _, m := range taken {
		if err := m.Ack(); err != nil {
			return fmt.Errorf("acknowledge an event: %w", err)
		}
	}
	return nil
}

const createTable = `create table if not exists shop_orders (
	order_id uuid primary key, user_id text not null, status text not null, sequence bigint not null, changes int not null)`

// upsert takes an event only if it is newer than what is known of its order, so that
// one that comes again, or late, has no effect.
const upsert = `insert into shop_orders values ($1, $2, $3, $4, 1)
	on conflict (order_id) do update set status = excluded.status, sequence = excluded.sequence, changes = shop_orders.changes + 1
	where excluded.sequence > shop_orders.sequence`

// keep is the shop's own work for one event, in the transaction that says how far it
// is. What is done elsewhere (a parcel, a mail) is to be written down here, as a row
// that is carried out afterwards.
func keep(ctx context.Context, tx pgx.Tx, data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		slog.Error("an event cannot be read; it is passed over", "error", err, "data", string(data))
		return nil
	}
	_, err := tx.Exec(ctx, upsert, e.Data.Order, e.Data.User, e.Data.Status, strings.TrimLeft(e.Sequence, "0"))
	return err
}
