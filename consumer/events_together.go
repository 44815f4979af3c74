package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of an atomic batch.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

var errNoAck = errors.New("the server did not acknowledge the batch")

// together sends all events as one atomic batch of JetStream (ADR-50): stored all or
// none, and synced to disk once, not once each. The answer to the last message speaks
// for all. Any error: perhaps stored, and to be sent singly, where the stream drops
// what it has; so does a batch of which it has a part.
func (e *Events) together(ctx context.Context, out []outgoing) error {
	batch := []string{uuid.NewString()}
	last := len(out) - 1
	for i, o := range out {
		o.msg.Header[batchID] = batch
		o.msg.Header[batchSequence] = []string{strconv.Itoa(i + 1)}
		if i == last { // what is said of it holds for all
			o.msg.Header.Set(jetstream.ExpectedStreamHeader, e.StreamName())
			o.msg.Header.Set(batchCommit, "1")
			return e.commit(ctx, o.msg)
		}
		if err := e.nc.PublishMsg(o.msg); err != nil {
			return fmt.Errorf("publish event %d of a batch of %d: %w", i+1, len(out), err)
		}
	}
	return nil
}

func (e *Events) commit(ctx context.Context, m *nats.Msg) error {
	reply, err := e.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return fmt.Errorf("commit a batch of events: %w", err)
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("commit a batch of events: %w", err)
	}
	switch {
	case ack.Error != nil:
		return fmt.Errorf("commit a batch of events: %w", ack.Error)
	case ack.Seq == 0:
		return errNoAck
	}
	return nil
}
