package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// readEvents reads what the shop behind has been told of a sale: how many changes wait to be published, and, when none
// does, the last status that the stream has of each order.
func (b *books) readEvents(ctx context.Context, f *field, activity string) error {
	db, err := f.ledger(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	err = db.QueryRow(ctx, `select coalesce(sum(orders), 0) from `+f.table("outbox_batches")).Scan(&b.unpublished)
	if err != nil || b.unpublished > 0 {
		return err
	}
	nc, err := f.nats()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	events, err := js.OrderedConsumer(ctx, strings.ToUpper(f.namespace)+"_EVENTS", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{f.namespace + ".events." + activity + ".>"},
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // told nothing, which is what the law will say
	}
	if err != nil {
		return err
	}
	return b.takeEvents(ctx, events)
}

func (b *books) takeEvents(ctx context.Context, events jetstream.Consumer) error {
	info, err := events.Info(ctx)
	if err != nil {
		return err
	}
	b.told = make(map[string]string, info.NumPending)
	coming, err := events.Messages()
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	defer coming.Stop()
	for range info.NumPending {
		m, err := coming.Next(jetstream.NextMaxWait(5 * time.Second))
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		var e struct {
			Data struct {
				ID     string `json:"order_id"`
				Status string `json:"status"`
			} `json:"data"`
		}
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		b.told[e.Data.ID] = e.Data.Status
	}
	return nil
}

// judgeEvents wants the shop behind to have been told of every order what the ledger has of it.
func (v *finding) judgeEvents(b *books, rows map[string]bookedOrder, t *told) {
	if b.unpublished > 0 {
		v.restless("%d changes of status wait to be published", b.unpublished)
		return
	}
	for id, row := range rows {
		if b.told[id] != row.status && !t.eventsLost {
			v.restless("order %s is %s, and the last event says %q", id, row.status, b.told[id])
		}
	}
}
