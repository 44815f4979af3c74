package admission

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PublishDeadline is D of the protocol: an order is answered with 202 only if the
// log's ack arrived within it, counted from the moment before the gate was asked.
// A rebuild waits as long, so that no append that earns a 202 can come after it.
const PublishDeadline = 2 * time.Second

// appendAttempt bounds one attempt of an append; the same bytes are then sent
// again under the same message id.
const appendAttempt = 700 * time.Millisecond

// duplicateWindow is how long the log recognises a batch that is sent again. It only
// saves work: what really guards is the order id in the ledger.
const duplicateWindow = 2 * time.Minute

// LogConfig describes the order log. All fields are needed.
type LogConfig struct {
	Namespace  string
	Partitions int           // fixed for the life of the installation
	Replicas   int           // 1, 3 or 5
	MaxBytes   int64         // of the stream on disk
	MaxAge     time.Duration // messages older than this are dropped, ledger rows outlive them; 0: none are, else at least two minutes
}

// Log is the order log: every accepted order, on disk, in order. Safe for
// concurrent use.
//
// An append is acknowledged after the message is on disk, if the server syncs
// always or the stream has replicas; see deploy for what the servers need.
type Log struct {
	js     jetstream.JetStream
	config LogConfig
}

// OpenLog connects the log with its stream and creates the stream if there is none.
// The connection must have no reconnect buffer: a message that leaves it after its
// append was given up would be an order nobody waits for.
func OpenLog(ctx context.Context, nc *nats.Conn, c LogConfig) (*Log, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the order log: %w", err)
	}
	l := &Log{js: js, config: c}
	if _, err := l.Stream(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Stream finds the log's stream and creates it if there is none: a log that was
// lost begins anew, and the sweep brings what the gates still have.
func (l *Log) Stream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := l.js.Stream(ctx, l.StreamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = l.create(ctx)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else was first
		stream, err = l.js.Stream(ctx, l.StreamName())
	}
	if err != nil {
		return nil, fmt.Errorf("find or create stream %s: %w", l.StreamName(), err)
	}
	return stream, nil
}

func (l *Log) create(ctx context.Context) (jetstream.Stream, error) {
	return l.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        l.StreamName(),
		Description: "every accepted order, in batches as the gate admitted them",
		Subjects:    []string{l.config.Namespace + ".orders.>"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		Replicas:    l.config.Replicas,
		MaxBytes:    l.config.MaxBytes,
		MaxAge:      l.config.MaxAge,
		Duplicates:  duplicateWindow,
		AllowDirect: true,
	})
}

// Reconnects counts how often the log's connection was lost and made again. A server
// that was away may have lost the end of the log.
func (l *Log) Reconnects() uint64 { return l.js.Conn().Stats().Reconnects }

// StreamName is the name of the JetStream stream.
func (l *Log) StreamName() string { return strings.ToUpper(l.config.Namespace) + "_ORDERS" }

// JetStream is the connection that the log uses.
func (l *Log) JetStream() jetstream.JetStream { return l.js }

// Partitions is the number of partitions of the log.
func (l *Log) Partitions() int { return l.config.Partitions }

// Partition is the one that holds the activity's orders: FNV-1a of its id.
func (l *Log) Partition(activity string) int {
	h := fnv.New32a()
	h.Write([]byte(activity))
	return int(h.Sum32() % uint32(l.config.Partitions))
}

// Filter is the subject of all messages of a partition.
func (l *Log) Filter(partition int) string {
	return l.config.Namespace + ".orders." + strconv.Itoa(partition) + ".>"
}

func (l *Log) subject(activity string) string {
	return l.config.Namespace + ".orders." + strconv.Itoa(l.Partition(activity)) + "." + activity
}

// ErrAppendUnknown says that a batch may or may not be in the log. It is not a
// failure: append it again, or leave it to the sweep.
var ErrAppendUnknown = errors.New("may or may not be in the order log")

// ErrAppendRefused says that the log answered that it does not take the batch now
// (it is full, or not there).
var ErrAppendRefused = errors.New("refused by the order log")

// Append writes the batch as one message and returns when it is on disk, with its
// sequence number. Until ctx ends it sends the same bytes under the same message
// id again whenever an ack is missing. Errors are ErrAppendUnknown or
// ErrAppendRefused; after either, nothing may be given back.
func (l *Log) Append(ctx context.Context, b Batch) (uint64, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return 0, fmt.Errorf("encode batch %s: %w", b.ID, err)
	}
	msg := &nats.Msg{Subject: l.subject(b.Activity), Data: data}
	TraceOnto(ctx, msg)
	var unknown bool
	for {
		seq, err := l.publish(ctx, msg, b.ID)
		if err == nil {
			return seq, nil
		}
		refused := isRefusal(err)
		unknown = unknown || !refused
		if refused && !unknown && !errors.Is(err, nats.ErrNoResponders) {
			return 0, fmt.Errorf("append batch %s of activity %s: %w: %w", b.ID, b.Activity, ErrAppendRefused, err)
		}
		select {
		case <-ctx.Done():
			kind := ErrAppendRefused
			if unknown {
				kind = ErrAppendUnknown
			}
			return 0, fmt.Errorf("append batch %s of activity %s: %w: %w", b.ID, b.Activity, kind, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (l *Log) publish(ctx context.Context, msg *nats.Msg, id string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendAttempt)
	defer cancel()
	// Expect the stream: a subject that another stream took over must not ack.
	ack, err := l.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id), jetstream.WithExpectStream(l.StreamName()), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// isRefusal says that the server answered, and that the message is not stored.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// LastSeq is the sequence number of the activity's newest message; 0: none.
func (l *Log) LastSeq(ctx context.Context, activity string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendAttempt)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.StreamName())
	if err != nil {
		return 0, fmt.Errorf("look stream %s up: %w", l.StreamName(), err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, l.subject(activity))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the newest message of activity %s: %w", activity, err)
	}
	return msg.Sequence, nil
}

// Ping asks whether JetStream answers.
func (l *Log) Ping(ctx context.Context) error {
	if _, err := l.js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("ask NATS JetStream whether it answers: %w", err)
	}
	return nil
}
