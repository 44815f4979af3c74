package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// A page is about readBytes, whatever the size of the messages: it begins with
	// firstPage messages and goes on with as many as fit, at most mostPage.
	readBytes = 1 << 20
	firstPage = 4
	mostPage  = 256
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
	return ReadStream(ctx, l.js, l.StreamName(), filter, from, to, each)
}

// ReadStream reads any stream as Log.Read reads the order log.
func ReadStream(ctx context.Context, js jetstream.JetStream, stream, filter string, from, to uint64, each func(page []Message, left uint64) error) error {
	r := &reader{js: js, stream: stream, filter: filter, to: to, each: each, page: firstPage}
	from = max(from, 1)
	for failures := 0; from <= to; {
		next, err := r.read(ctx, from)
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
			return fmt.Errorf("read stream %s from message %d: %w", stream, next, err)
		}
		from = next
	}
	return nil
}

// stoppedError is an error of the caller's function, which is not tried again.
type stoppedError struct{ error }

// errGap says that messages got lost between server and reader.
var errGap = errors.New("messages are missing in what the server sent")

// reader is one reading of a stream.
type reader struct {
	js             jetstream.JetStream
	stream, filter string
	to             uint64
	each           func([]Message, uint64) error
	page           uint64 // messages that the next request asks for
}

// read reads with one consumer, and returns where to go on after an error.
func (r *reader) read(ctx context.Context, from uint64) (uint64, error) {
	consumer, err := r.js.CreateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		Description: "reads beside the workers", FilterSubject: r.filter,
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
		_ = r.js.DeleteConsumer(ctx, r.stream, info.Name) // or the server does, when it is idle
	}()
	delivered := uint64(0)
	for left := info.NumPending; left > 0; {
		page, rest, err := fetchPage(ctx, consumer, min(left, r.page), &delivered)
		if len(page) == 0 && err == nil {
			err = errGap
		}
		r.fit(page)
		done := false
		for i, m := range page {
			if done = m.Seq > r.to; done {
				page, rest = page[:i], 0
				break
			}
		}
		if len(page) > 0 {
			from = page[len(page)-1].Seq + 1
			if err := r.each(page, rest); err != nil {
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

// fit sets the length of the next page by the largest message of this one.
func (r *reader) fit(page []Message) {
	largest := 1
	for _, m := range page {
		largest = max(largest, len(m.Data))
	}
	r.page = uint64(min(max(readBytes/largest, firstPage), mostPage))
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
