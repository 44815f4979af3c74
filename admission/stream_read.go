package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// readPage is how many messages one request for pages asks for: at most 16 MiB.
	readPage = 64
	// readWait bounds one request, readAttempts how many may bring nothing in a row.
	readWait     = 2 * time.Second
	readAttempts = 5
	// readIdle is when the server drops the consumer of a reader that is gone.
	readIdle = 30 * time.Second
)

// Message is one message of the order log as a reader sees it.
type Message struct {
	Seq     uint64
	Subject string
	Data    []byte
}

// Subject is the subject of all messages of an activity.
func (l *Log) Subject(activity string) string { return l.subject(activity) }

// All is the subject filter of the whole log.
func (l *Log) All() string { return l.config.Namespace + ".orders.>" }

// Read hands the messages under a subject filter to each, page by page and in
// order, from one sequence number to another, both included. It has a consumer of
// its own, without acknowledgements, and touches no worker's. Messages that expire
// while they are read are left out. left is how many are still to come, about.
func (l *Log) Read(ctx context.Context, filter string, from, to uint64, each func(page []Message, left uint64) error) error {
	from = max(from, 1)
	for failures := 0; from <= to; {
		next, err := l.read(ctx, filter, from, to, each)
		var stopped *stoppedError
		switch {
		case errors.As(err, &stopped):
			return stopped.error
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case next > from:
			failures = 0
		default:
			failures++
		}
		if failures == readAttempts {
			return fmt.Errorf("read stream %s from message %d: %w", l.StreamName(), next, err)
		}
		from = next
	}
	return nil
}

// stoppedError is an error of the caller's function, which is not tried again.
type stoppedError struct{ error }

// errGap says that messages got lost between server and reader.
var errGap = errors.New("messages are missing in what the server sent")

// read reads with one consumer, and returns where to go on after an error.
func (l *Log) read(ctx context.Context, filter string, from, to uint64, each func([]Message, uint64) error) (uint64, error) {
	consumer, err := l.js.CreateConsumer(ctx, l.StreamName(), jetstream.ConsumerConfig{
		Description: "reads the log beside the workers", FilterSubject: filter,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: readIdle,
	})
	if err != nil {
		return from, err
	}
	info := consumer.CachedInfo()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWait)
		defer cancel()
		_ = l.js.DeleteConsumer(ctx, l.StreamName(), info.Name) // or the server does, when it is idle
	}()
	delivered := uint64(0)
	for left := info.NumPending; left > 0; {
		page, rest, err := fetchPage(ctx, consumer, min(left, readPage), &delivered)
		if len(page) == 0 && err == nil {
			err = errGap
		}
		done := false
		for i, m := range page {
			if done = m.Seq > to; done {
				page, rest = page[:i], 0
				break
			}
		}
		if len(page) > 0 {
			from = page[len(page)-1].Seq + 1
			if err := each(page, rest); err != nil {
				return from, &stoppedError{err}
			}
		}
		if done {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		left = rest
	}
	return from, nil
}

// fetchPage takes the next messages and checks that none is missing among them.
func fetchPage(ctx context.Context, consumer jetstream.Consumer, n uint64, delivered *uint64) (page []Message, left uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	batch, err := consumer.Fetch(int(n), jetstream.FetchContext(ctx))
	if err != nil {
		return nil, 0, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return page, left, err
		}
		if meta.Sequence.Consumer != *delivered+1 {
			return page, left, errGap
		}
		*delivered++
		left = meta.NumPending
		page = append(page, Message{Seq: meta.Sequence.Stream, Subject: m.Subject(), Data: m.Data()})
	}
	return page, left, batch.Error()
}
