package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

const (
	// eventsPage is how many changes are published at once, and about how many are read:
	// the server takes up to a thousand messages in one batch.
	eventsPage = 1000
	// eventsEvery is the pause after all of the outbox was published: what comes meanwhile
	// shares one sync of the stream. After an error it doubles up to eventsRetry.
	eventsEvery, eventsRetry = 100 * time.Millisecond, 2 * time.Second
	// eventsAck bounds the wait for the acks of one page.
	eventsAck = 5 * time.Second
)

// EventsConfig describes the stream of events. All fields are needed, save Tracing (nil:
// none).
type EventsConfig struct {
	Namespace string
	Replicas  int           // 1, 3 or 5
	MaxBytes  int64         // of the stream on disk; when it is full, events wait in the outbox
	MaxAge    time.Duration // older events are dropped; 0: none are, else at least two minutes
	Tracing   *admission.Tracing
}

// Events publishes every change of status of every order, for the shop behind: what
// the ledger wrote to its outbox in the transaction of the change.
//
// An event is on disk before its row is removed, so it is published at least once,
// also when the log was away, the publisher died or the ledger fell back to an older
// state. The events of one order are published in the order of its changes: the next
// is sent when the one before has been acknowledged. One that comes again, after a
// crash, has the id that it had, by which the stream drops it for two minutes.
//
// It may run anywhere; one at a time is enough. Not safe for concurrent use.
type Events struct {
	ledger *Ledger
	nc     *nats.Conn
	js     jetstream.JetStream
	config EventsConfig
	logger *slog.Logger

	stored map[string]bool // ids of events that are on disk while their row is not removed
}

// NewEvents publishes over a connection, which must have no reconnect buffer. The
// stream is created by Create, or when the first event does not find it.
func NewEvents(ledger *Ledger, nc *nats.Conn, c EventsConfig, logger *slog.Logger) (*Events, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(eventsPage), jetstream.WithPublishAsyncTimeout(eventsAck))
	if err != nil {
		return nil, fmt.Errorf("open the stream of events: %w", err)
	}
	return &Events{ledger: ledger, nc: nc, js: js, config: c, logger: logger, stored: map[string]bool{}}, nil
}

// StreamName is the name of the JetStream stream.
func (e *Events) StreamName() string { return strings.ToUpper(e.config.Namespace) + "_EVENTS" }

// Create creates the stream, if there is none.
func (e *Events) Create(ctx context.Context) error {
	_, err := e.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        e.StreamName(),
		Description: "every change of status of every order, as CloudEvents",
		Subjects:    []string{e.config.Namespace + ".events.>"},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		Replicas:    e.config.Replicas,
		MaxBytes:    e.config.MaxBytes,
		MaxAge:      e.config.MaxAge,
		Duplicates:  2 * time.Minute,
		AllowDirect: true,

		AllowAtomicPublish: true,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("create stream %s: %w", e.StreamName(), err)
	}
	return nil
}

// Run publishes until ctx ends.
func (e *Events) Run(ctx context.Context) error {
	wait := eventsEvery
	for ctx.Err() == nil {
		n, err := e.Round(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			e.logger.Warn("events wait in the outbox; publishing is tried again", "error", err)
			pause(ctx, wait)
			wait = min(2*wait, eventsRetry)
		case n < eventsPage:
			wait = eventsEvery
			pause(ctx, wait)
		default:
			wait = eventsEvery
		}
	}
	return context.Cause(ctx)
}

// Round publishes the oldest changes and returns how many it removed from the outbox.
func (e *Events) Round(ctx context.Context) (int, error) {
	page, err := e.ledger.changes(ctx, eventsPage)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	done := 0 // changes at the head of the page whose events are on disk
	for done < len(page) && err == nil {
		part := untilRepeated(page[done:])
		if err = e.publish(ctx, part); err == nil {
			done += len(part)
		}
	}
	rows, n := whole(page, done)
	if n > 0 {
		// What is published is removed, also when the time is up.
		remove, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		err = errors.Join(err, e.ledger.published(remove, rows))
		for _, c := range page[:n] {
			delete(e.stored, c.eventID())
		}
	}
	return n, err
}

// untilRepeated cuts changes before the second one of an order, or when a batch is full.
func untilRepeated(changes []change) []change {
	seen := map[string]bool{}
	for i, c := range changes {
		if seen[c.ID] || i == eventsPage {
			return changes[:i]
		}
		seen[c.ID] = true
	}
	return changes
}

// whole returns the rows of which all changes are among the first so many, and how many
// changes that is.
func whole(page []change, done int) (rows []int64, n int) {
	for i := range done {
		if i+1 == len(page) || page[i+1].id != page[i].id {
			rows, n = append(rows, page[i].id), i+1
		}
	}
	return rows, n
}

// publish returns when the events of all changes, each of another order, are on disk.
func (e *Events) publish(ctx context.Context, changes []change) error {
	ctx, cancel := context.WithTimeout(ctx, eventsAck)
	defer cancel()
	out := make([]outgoing, 0, len(changes))
	for _, c := range changes {
		if e.stored[c.eventID()] {
			continue
		}
		o, err := e.message(ctx, c)
		if err != nil {
			return fmt.Errorf("write the event of order %s: %w", c.ID, err)
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		return nil
	}
	if e.together(ctx, out) != nil {
		return e.singly(ctx, out)
	}
	for _, o := range out {
		o.step.End(nil)
	}
	return nil
}

// singly sends each event by itself, and remembers which are on disk: the row of all of
// them stays until the last one is.
func (e *Events) singly(ctx context.Context, out []outgoing) (err error) {
	var acks []jetstream.PubAckFuture
	for _, o := range out {
		for _, header := range []string{batchID, batchSequence, batchCommit} {
			o.msg.Header.Del(header)
		}
		ack, refused := e.js.PublishMsgAsync(o.msg, jetstream.WithExpectStream(e.StreamName()), jetstream.WithRetryAttempts(0))
		if refused != nil {
			err = fmt.Errorf("publish the event of order %s: %w", o.ID, refused)
			break
		}
		acks = append(acks, ack)
	}
	for i, o := range out {
		ended := err
		if i < len(acks) {
			ended = acked(ctx, acks[i])
		}
		o.step.End(ended)
		if ended == nil {
			e.stored[o.eventID()] = true
			continue
		}
		err = fmt.Errorf("publish the event of order %s: %w", o.ID, ended)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		clear(e.stored) // with the stream, what it had
		err = errors.Join(err, e.Create(ctx))
	}
	return err
}

// acked waits until an event is on disk or refused, or ctx ends.
func acked(ctx context.Context, ack jetstream.PubAckFuture) error {
	select {
	case <-ack.Ok():
		return nil
	case refused := <-ack.Err():
		return refused
	case <-ctx.Done():
		return fmt.Errorf("no ack: %w", ctx.Err())
	}
}

// outgoing is a change on its way to the stream.
type outgoing struct {
	change
	msg  *nats.Msg
	step admission.Step
}

var eventType = []string{eventContentType}

func (e *Events) message(ctx context.Context, c change) (outgoing, error) {
	event := c.event(e.config.Namespace)
	data, err := event.encode()
	if err != nil {
		return outgoing{}, err
	}
	msg := &nats.Msg{
		Subject: e.config.Namespace + ".events." + c.Activity + "." + string(c.Status), Data: data,
		Header: nats.Header{"Content-Type": eventType, jetstream.MsgIDHeader: {event.ID}},
	}
	ctx, step := c.goOn(ctx, e.config.Tracing)
	if step.Traced() {
		admission.TraceOnto(ctx, msg)
	}
	return outgoing{c, msg, step}, nil
}
