package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"seckill/admission"
	"seckill/lockprovider"
)

const (
	memberPrefix = "member/"

	// fetchWait is how long one request for messages stays open at the server.
	fetchWait = 2 * time.Second
	// fetchMore is how many further messages are taken with the first.
	fetchMore = 63
	// settleOrders is about how many orders one transaction settles.
	settleOrders = 1000
	// Pauses between attempts to settle the same messages while the ledger is away.
	firstRetry, lastRetry = 50 * time.Millisecond, 2 * time.Second
	// bindTimeout bounds the set-up of the consumer.
	bindTimeout = 5 * time.Second
)

// PartitionLock is the name of the lease of a partition.
func PartitionLock(n int) string { return "partition/" + strconv.Itoa(n) }

// settler settles one partition during one hold.
type settler struct {
	*Worker
	lease    *lockprovider.Lease
	term     Term
	consumer jetstream.Consumer

	reconnects uint64 // of the log's connection when the consumer was set
	delivered  uint64 // deliveries that have come here since then
}

// errReconnected ends a hold: the log may have lost its tail with its server.
var errReconnected = errors.New("the log was away: its end is compared with the ledger's position")

// errTaken ends a hold: a delivery of the partition did not come here. Whoever has it
// may die with it, and the position must not pass what is not decided. A request for
// messages that a stale holder left open may have taken it, or it came too late for ours.
// A delivery in turn shows the gap, or, when nothing comes, the log's own count.
var errTaken = errors.New("the log has delivered messages to somebody else: the partition is settled again from the ledger's position")

// ConsumerName is the durable consumer of a partition.
func ConsumerName(partition int) string { return "partition-" + strconv.Itoa(partition) }

// run settles until taking ends (nil), or the hold does.
func (s *settler) run(taking, hold context.Context) error {
	for taking.Err() == nil {
		messages, err := s.fetch(taking, hold)
		if err != nil {
			return fmt.Errorf("fetch from partition %d: %w", s.term.Partition, err)
		}
		if len(messages) == 0 && s.misses(hold) {
			return errTaken
		}
		for len(messages) > 0 {
			n := s.portion(messages)
			err := s.Pace.wait(taking, hold, messages, n, s.AckWait)
			if err == nil {
				err = s.settle(taking, hold, messages[:n])
			}
			if err != nil {
				giveBack(messages)
				return err
			}
			messages = messages[n:]
		}
		if err := s.lease.Err(); err != nil && taking.Err() == nil {
			return err
		}
		if s.Log.Reconnects() != s.reconnects {
			return errReconnected
		}
	}
	return nil
}

// misses asks the log, when nothing comes, whether it has delivered more than came here.
func (s *settler) misses(hold context.Context) bool {
	ctx, cancel := context.WithTimeout(hold, bindTimeout)
	defer cancel()
	info, err := s.consumer.Info(ctx)
	return err == nil && info.Delivered.Consumer > s.delivered // the next fetch says why it does not answer
}

// giveBack has messages delivered again at once, to whoever has the newer term: a
// request for messages that a stale holder left open may have taken them. Who has the
// term notices by itself only when another message comes, or none for a while.
func giveBack(messages []message) {
	for _, m := range messages {
		_ = m.Nak() // a lost one only means waiting for AckWait
	}
}

// message is a delivery with the means to acknowledge it.
type message struct {
	jetstream.Msg
	Delivery
	broken error // why it cannot be read
}

// fetch waits for a message and takes what else is there. No messages: none came.
func (s *settler) fetch(taking, hold context.Context) ([]message, error) {
	ctx, cancel := context.WithTimeout(taking, fetchWait)
	defer cancel()
	defer context.AfterFunc(hold, cancel)()
	first, err := s.consumer.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	messages, err := s.collect(nil, first)
	if len(messages) == 0 {
		if ctx.Err() != nil {
			err = context.Cause(hold)
		}
		return nil, err
	}
	more, err := s.consumer.FetchNoWait(fetchMore)
	if err != nil {
		return messages, nil // what is in hand is settled; the next fetch says why
	}
	messages, _ = s.collect(messages, more)
	return messages, nil
}

// collect takes deliveries up to the first that did not come in turn; it gives back what
// it does not take.
func (s *settler) collect(into []message, batch jetstream.MessageBatch) ([]message, error) {
	var ended error
	for m := range batch.Messages() {
		next, err := s.receive(m)
		if ended = cmp.Or(ended, err); ended != nil {
			giveBack([]message{next})
			continue
		}
		into = append(into, next)
	}
	return into, cmp.Or(ended, batch.Error())
}

// receive reads one delivery.
func (s *settler) receive(m jetstream.Msg) (message, error) {
	next := message{Msg: m}
	meta, err := m.Metadata()
	if err != nil {
		return next, fmt.Errorf("read the sequence of a message: %w", err)
	}
	if meta.Sequence.Consumer != s.delivered+1 {
		return next, errTaken
	}
	s.delivered++
	if meta.NumDelivered > 1 {
		s.Metrics.redelivered.Inc()
	}
	next.Batch, next.broken = admission.DecodeBatch(m.Data())
	next.Seq, next.Deliveries = meta.Sequence.Stream, meta.NumDelivered
	return next, nil
}

// portion is how many of the messages one transaction takes.
func (s *settler) portion(messages []message) int {
	n, orders := 0, 0
	for n < len(messages) && (n == 0 || orders+len(messages[n].Orders) <= settleOrders) {
		orders += len(messages[n].Orders)
		n++
	}
	return n
}

// settle decides messages, tells the gate and acknowledges. While the ledger is
// away it tries again, with the deliveries kept alive, until taking or hold ends.
func (s *settler) settle(taking, hold context.Context, messages []message) (err error) {
	hold, step := s.takeOver(hold, messages)
	defer func() { step.End(err) }()
	var deliveries []Delivery
	var unreadable []Unreadable
	for _, m := range messages {
		if m.broken != nil {
			unreadable = append(unreadable, Unreadable{m.Delivery, m.Data(), m.broken})
			continue
		}
		deliveries = append(deliveries, m.Delivery)
	}
	if err := s.Dead.Broken(hold, unreadable...); err != nil {
		return err
	}
	decisions, err := s.decide(taking, hold, deliveries, messages)
	if err != nil {
		return err
	}
	if err := s.Dead.Held(hold, decisions); err != nil {
		return err
	}
	if s.term.Reached < messages[len(messages)-1].Seq { // now that nobody need find a held order again
		if _, err := s.decide(taking, hold, nil, messages); err != nil {
			return err
		}
	}
	tell, told := s.Tracing.Begin(hold, "tell", trace.SpanKindClient)
	tellGate(tell, s.Gate, s.Logger, decisions)
	told.End(nil)
	notify(s.Log, decisions)
	if err := s.Dead.Decided(hold, decisions); err != nil {
		s.Logger.Warn("dead letters of decided orders are left; seckill dlq shows them as decided", "error", err)
	}
	for _, m := range messages {
		if err := m.Ack(); err != nil {
			return fmt.Errorf("acknowledge message %d: %w", m.Seq, err)
		}
	}
	return nil
}

func (s *settler) decide(taking, hold context.Context, deliveries []Delivery, messages []message) ([]Decision, error) {
	upTo := messages[len(messages)-1].Seq
	alive := time.Now()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if err := s.lease.Err(); errors.Is(err, lockprovider.ErrLost) {
			return nil, err
		}
		began := time.Now()
		deciding, step := s.Tracing.Begin(hold, "decide", trace.SpanKindClient)
		decisions, err := s.settleOrIsolate(deciding, deliveries, upTo)
		step.End(err)
		if err == nil {
			s.Metrics.settled(decisions, time.Since(began))
			return decisions, nil
		}
		if errors.Is(err, ErrFellBack) {
			err = errors.Join(err, s.fellBack(hold))
		}
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrFellBack) || hold.Err() != nil || taking.Err() != nil {
			return nil, err
		}
		s.Logger.Warn("ledger did not settle; the same messages are tried again", "partition", s.term.Partition, "error", err)
		if classify(err) == contention {
			wait = firstRetry
		}
		if time.Since(alive) > s.AckWait/3 {
			alive = time.Now()
			keepAlive(messages)
		}
		pause(hold, wait)
	}
}

// keepAlive has the log wait longer for the acknowledgements.
func keepAlive(messages []message) {
	for _, m := range messages {
		_ = m.InProgress() // a lost one only means another delivery
	}
}

// tellGate brings the outcomes to the gates. What does not arrive is brought by the
// sweep or the release job: a pending record or a mark on the row is the reminder.
func tellGate(ctx context.Context, gate *admission.Gate, logger *slog.Logger, decisions []Decision) {
	outcomes := map[gateLife][]admission.Outcome{}
	for _, d := range decisions {
		if d.Status != admission.Held {
			k := gateLife{d.Activity, d.Epoch}
			outcomes[k] = append(outcomes[k], admission.Outcome{ID: d.ID, Live: d.Status.Live()})
		}
	}
	for k, list := range outcomes {
		if err := gate.Settle(ctx, k.activity, k.epoch, list); err != nil {
			logger.Warn("gate was not told; it will be", "activity", k.activity, "orders", len(list), "error", err)
		}
	}
}

// notify tells the nodes, where buyers may be waiting. It comes after the gate, which
// they look at first.
func notify(log *admission.Log, decisions []Decision) {
	ids := make([]string, len(decisions))
	for i, d := range decisions {
		ids[i] = d.ID
	}
	log.Notify(ids)
}
