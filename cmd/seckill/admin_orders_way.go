package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
)

// wayStep is one thing that happened to an order. At is null if no store knows it.
type wayStep struct {
	Step   string     `json:"step" enum:"reserved,logged,held,decided,paid,refund-due,replaced,cancelled,expired,operator,event-waiting"`
	At     *time.Time `json:"at"`
	Detail string     `json:"detail"`
	Actor  string     `json:"actor,omitempty" doc:"of an operator's step"`
	Reason string     `json:"reason,omitempty"`
}

// orderWay is one order as the four stores have it.
type orderWay struct {
	Order    orderLine             `json:"order"`
	Gate     string                `json:"gate" enum:"pending,charged,released,none,unknown"`
	Ledger   *consumer.OrderRecord `json:"ledger"`
	Steps    []wayStep             `json:"steps"`
	Replaces string                `json:"replaces,omitempty" doc:"the expired order whose late payment bought this one"`
}

type showOrderInput struct {
	ID string `path:"id"`
}

type showOrderOutput struct {
	Body orderWay
}

func (a *orderAPI) show(ctx context.Context, in *showOrderInput) (*showOrderOutput, error) {
	if !admission.ValidID(in.ID) {
		return nil, admission.NewProblem(admission.CodeNotFound, "There is no order %.100s.", in.ID)
	}
	w, err := a.node.way(ctx, in.ID)
	if errors.Is(err, admission.ErrNoOrder) {
		return nil, admission.NewProblem(admission.CodeNotFound, "There is no order %s.", in.ID)
	}
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return &showOrderOutput{Body: w}, nil
}

// way puts together what became of an order. Only the ledger has to answer: what the
// others would add is then missing.
func (n *node) way(ctx context.Context, id string) (orderWay, error) {
	s := n.stores
	row, err := s.findOrder(ctx, id)
	if err != nil {
		return orderWay{}, err
	}
	w := orderWay{Order: viewOrder(row), Gate: s.atGate(ctx, row)}
	w.add("reserved", row.CreatedAt, fmt.Sprintf("the gate reserved %d of %s/%s", row.Quantity, row.Activity, row.SKU))
	if row.Status != admission.Accepted {
		record, err := s.ledger.Record(ctx, id)
		if err != nil {
			return w, err
		}
		w.Ledger, w.Replaces = &record, record.Replaces
		w.addLogged(ctx, s.log, id)
		w.addLedger(row, record)
	}
	if row.Status == admission.Held {
		w.addLetter(ctx, s.dead(n.config), row)
	}
	entries, err := s.ledger.ActivityLog(ctx, consumer.LogFilter{Subject: id, Limit: 100})
	if err != nil {
		return w, err
	}
	for _, e := range entries {
		w.Steps = append(w.Steps, wayStep{Step: "operator", At: &e.At, Detail: e.Action + ": " + e.Detail, Actor: e.Actor, Reason: e.Reason})
	}
	slices.SortStableFunc(w.Steps, func(a, b wayStep) int {
		if a.At == nil || b.At == nil {
			return 0
		}
		return a.At.Compare(*b.At)
	})
	return w, nil
}

func (w *orderWay) add(step string, at time.Time, detail string) {
	w.Steps = append(w.Steps, wayStep{Step: step, At: timeOrNil(at.UTC()), Detail: detail})
}

// atGate is the gate's word for an order.
func (s *stores) atGate(ctx context.Context, row admission.Row) string {
	r, ok, err := s.gate.Find(ctx, row.Activity, row.ID)
	if err != nil {
		return "unknown"
	}
	words := map[admission.ReservationState]string{admission.Pending: "pending", admission.Charged: "charged", admission.Released: "released"}
	if !ok {
		return "none"
	}
	return words[r.State]
}

// addLogged finds the message of the log from which the order was decided, unless the
// log has dropped it.
func (w *orderWay) addLogged(ctx context.Context, log *admission.Log, id string) {
	if w.Ledger.LogSeq == 0 {
		return
	}
	step := wayStep{Step: "logged", Detail: fmt.Sprintf("message %d of partition %d; the log does not have it any more", w.Ledger.LogSeq, w.Ledger.Partition)}
	if m, err := logMessage(ctx, log, w.Ledger.LogSeq); err == nil {
		if b, err := admission.DecodeBatch(m.Data); err == nil && slices.ContainsFunc(b.Orders, func(o admission.Order) bool { return o.ID == id }) {
			at := m.Time.UTC()
			step.At, step.Detail = &at, fmt.Sprintf("message %d of partition %d, batch %s of %d orders", w.Ledger.LogSeq, w.Ledger.Partition, b.ID, len(b.Orders))
			if b.Replay != nil {
				step.Detail += "; appended again by replay " + b.Replay.Run
			}
		}
	}
	w.Steps = append(w.Steps, step)
}

func logMessage(ctx context.Context, log *admission.Log, seq uint64) (*jetstream.RawStreamMsg, error) {
	stream, err := log.JetStream().Stream(ctx, log.StreamName())
	if err != nil {
		return nil, err
	}
	return stream.GetMsg(ctx, seq)
}

// addLedger adds what the ledger's rows say. The first decision is told by what must
// have come before the present status.
func (w *orderWay) addLedger(row admission.Row, r consumer.OrderRecord) {
	first := row.Status
	switch {
	case !row.PayBefore.IsZero():
		first = admission.PendingPayment
	case row.Status == admission.Paid, row.Status == admission.Cancelled && r.LogSeq != 0:
		first = admission.Confirmed
	}
	if row.Status != admission.Held && (row.Status != admission.Cancelled || r.LogSeq != 0) {
		detail := fmt.Sprintf("%s, by the settler of term %d", first, r.Term)
		if row.Reason != "" && first == row.Status {
			detail += ": " + row.Reason
		}
		w.add("decided", row.DecidedAt, detail)
	}
	if p := r.Payment; p != nil {
		w.add("paid", p.At, fmt.Sprintf("payment %s of %d (%s)", p.ID, p.Amount, p.State))
	}
	changed := r.ChangedAt
	switch row.Status {
	case admission.Cancelled:
		if changed.IsZero() && r.LogSeq == 0 {
			changed = row.DecidedAt // in flight: its first row says so
		}
		w.add("cancelled", changed, orDash(row.Reason))
	case admission.Expired:
		if r.Payment != nil { // which came late, and changed it again
			changed = row.PayBefore
		}
		w.add("expired", changed, "not paid before "+row.PayBefore.UTC().Format(time.RFC3339))
	}
	if row.Refund != "" {
		w.add("refund-due", r.ChangedAt, "the money has to go back")
	}
	if row.ReplacedBy != "" {
		w.add("replaced", r.ChangedAt, "the late payment bought order "+row.ReplacedBy)
	}
	if !r.EventSince.IsZero() {
		w.add("event-waiting", r.EventSince, "an event of this order is not published yet")
	}
}

func (w *orderWay) addLetter(ctx context.Context, dead *consumer.DeadLetters, row admission.Row) {
	letters, err := dead.Find(ctx, row.Activity, func(l consumer.Letter) bool { return l.ID() == row.ID })
	if err != nil || len(letters) == 0 {
		w.add("held", row.DecidedAt, orDash(row.Reason))
		return
	}
	l := letters[0]
	w.add("held", l.At, fmt.Sprintf("dead letter %d, after %d deliveries: %s", l.Number, l.Deliveries, l.Detail))
}
