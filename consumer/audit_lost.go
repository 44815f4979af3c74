package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// loggedOrder is one order of the log, with where it stands there.
type loggedOrder struct {
	admission.Order
	activity string
	seq      uint64
}

// readLog reads the whole log up to where it ended when the audit began. What the
// settled position has passed must have a row, or wait at the gate; what it has not
// is the backlog.
func (r *auditing) readLog(ctx context.Context) error {
	stream, err := r.stream(ctx)
	if err != nil {
		return err
	}
	if r.settled, err = r.positions(ctx, r.tx, stream.CachedInfo()); err != nil {
		return err
	}
	if r.report.Log.Dead, err = r.Dead.Count(ctx, r.Activity); err != nil {
		return err
	}
	filter := r.Log.All()
	if r.Activity != "" {
		filter = r.Log.Subject(r.Activity)
	}
	var orders []loggedOrder
	read := uint64(0)
	err = r.Log.Read(ctx, filter, 1, r.report.Log.LastSeq, func(page []admission.Message, left uint64) error {
		for _, m := range page {
			orders = r.take(orders, m)
			if len(orders) >= auditChunk {
				if err := r.judgeLogged(ctx, orders); err != nil {
					return err
				}
				orders = orders[:0]
			}
		}
		if read += uint64(len(page)); r.Progress != nil {
			r.Progress(read, read+left)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.judgeLogged(ctx, orders)
}

// take adds the settled orders of a message. One that cannot be read is in the
// dead-letter stream, once it is settled.
func (r *auditing) take(into []loggedOrder, m admission.Message) []loggedOrder {
	batch, err := admission.DecodeBatch(m.Data)
	ahead := m.Seq > r.settled[partitionOf(m.Subject)]
	if ahead {
		r.ahead++
	}
	if err != nil {
		return into
	}
	r.report.Log.Orders += uint64(len(batch.Orders))
	if ahead {
		r.report.Log.Backlog += uint64(len(batch.Orders))
		return into
	}
	for _, o := range batch.Orders {
		into = append(into, loggedOrder{Order: o, activity: batch.Activity, seq: m.Seq})
	}
	return into
}

// partitionOf reads the partition in the subject of a message.
func partitionOf(subject string) int {
	parts := strings.SplitN(subject, ".", 4)
	if len(parts) < 4 {
		return -1
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return -1
	}
	return n
}

// judgeLogged compares settled orders of the log with their rows.
func (r *auditing) judgeLogged(ctx context.Context, orders []loggedOrder) error {
	ids := make([]string, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	rows, err := r.rows(ctx, ids)
	if err != nil {
		return err
	}
	missing := map[string][]loggedOrder{}
	for _, o := range orders {
		row, ok := rows[o.ID]
		switch {
		case !ok:
			missing[o.activity] = append(missing[o.activity], o)
		case row.activity != o.activity || row.sku != o.SKU || row.user != o.User || row.quantity != o.Quantity:
			r.always.add(Violation{
				Law: LawStatus, Activity: o.activity, SKU: o.SKU, Order: o.ID,
				Detail: fmt.Sprintf("activity, SKU, buyer or quantity of the row is not that of log message %d", o.seq),
			})
		}
	}
	for activity, orders := range missing {
		if err := r.judgeMissing(ctx, activity, orders); err != nil {
			return err
		}
	}
	return nil
}

// judgeMissing finds out which settled orders without a row are lost. One that is
// pending at the gate will be appended again by the sweep, or was since the
// snapshot and now has a row.
func (r *auditing) judgeMissing(ctx context.Context, activity string, orders []loggedOrder) error {
	ids := make([]string, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	records, err := r.Gate.RecordsOf(ctx, activity, ids)
	if err != nil {
		return err
	}
	now, err := r.Ledger.Orders(ctx, ids)
	if err != nil {
		return err
	}
	for _, o := range orders {
		if _, decided := now[o.ID]; decided || records[o.ID].State == admission.Pending {
			continue
		}
		r.always.add(Violation{
			Law: LawLost, Activity: activity, SKU: o.SKU, Order: o.ID,
			Detail: fmt.Sprintf("the order is in log message %d, which is settled, and neither decided nor pending at the gate", o.seq),
		})
	}
	return nil
}

// ReadDeadLetters returns the dead letters of a namespace for reading only: the
// stream is not created.
func ReadDeadLetters(js jetstream.JetStream, namespace string) *DeadLetters {
	return &DeadLetters{js: js, namespace: namespace}
}

// Count counts the messages of the dead-letter stream, of one activity or (empty)
// of all. Without a stream there are none.
func (d *DeadLetters) Count(ctx context.Context, activity string) (uint64, error) {
	stream, err := d.js.Stream(ctx, d.StreamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look stream %s up: %w", d.StreamName(), err)
	}
	if activity == "" {
		return stream.CachedInfo().State.Msgs, nil
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(d.namespace+".dead."+activity))
	if err != nil {
		return 0, fmt.Errorf("count the messages of stream %s: %w", d.StreamName(), err)
	}
	var n uint64
	for _, messages := range info.State.Subjects {
		n += messages
	}
	return n, nil
}
