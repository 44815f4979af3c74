package consumer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// letterVersion is the form of the letters that this release writes and reads.
const letterVersion = 1

// unknownActivity stands for the activity of a message that cannot be read.
const unknownActivity = "unknown"

// deadTimeout bounds one write to the dead-letter stream.
const deadTimeout = 2 * time.Second

// DeadLetter is one message of the dead-letter stream: an order that cannot be
// settled as it stands, or a log message that cannot be read.
type DeadLetter struct {
	Version    int              `json:"v"`
	Order      *admission.Order `json:"order,omitempty"`
	Activity   string           `json:"activity"`
	Reason     string           `json:"reason"`
	Detail     string           `json:"detail"`
	Seq        uint64           `json:"seq"`
	Deliveries uint64           `json:"deliveries"` // of the log message, when the letter was written
	At         time.Time        `json:"at"`
	Data       []byte           `json:"data,omitempty"` // of a log message that cannot be read
}

// DeadLetters is the stream of what an operator has to decide.
type DeadLetters struct {
	js        jetstream.JetStream
	namespace string
}

// OpenDeadLetters connects with the dead-letter stream and creates it if there is
// none.
func OpenDeadLetters(ctx context.Context, js jetstream.JetStream, namespace string, replicas int) (*DeadLetters, error) {
	d := &DeadLetters{js: js, namespace: namespace}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        d.StreamName(),
		Description: "orders that an operator has to decide, one a message",
		Subjects:    []string{namespace + ".dead.>"},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		Replicas:    replicas,
		AllowDirect: true,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil, fmt.Errorf("create stream %s: %w", d.StreamName(), err)
	}
	return d, nil
}

// StreamName is the name of the JetStream stream.
func (d *DeadLetters) StreamName() string { return strings.ToUpper(d.namespace) + "_DEAD" }

// Unreadable is a log message that cannot be read.
type Unreadable struct {
	From Delivery
	Data []byte
	Why  error
}

func (u Unreadable) isIn(l Letter) bool {
	return l.Order == nil && l.Seq == u.From.Seq && bytes.Equal(l.Data, u.Data)
}

// Broken keeps log messages that cannot be read, unless they are kept already: a log
// that is settled again from its beginning brings them once more. It looks through what
// is kept once for all of them: a flood of such messages must not outlast AckWait.
func (d *DeadLetters) Broken(ctx context.Context, messages ...Unreadable) error {
	if len(messages) == 0 {
		return nil
	}
	kept, err := d.Find(ctx, unknownActivity, func(l Letter) bool {
		return slices.ContainsFunc(messages, func(u Unreadable) bool { return u.isIn(l) })
	})
	if err != nil {
		return err
	}
	for _, u := range messages {
		if slices.ContainsFunc(kept, u.isIn) {
			continue
		}
		letter := DeadLetter{
			Version: letterVersion, Activity: unknownActivity, Reason: "unreadable", Detail: u.Why.Error(),
			Seq: u.From.Seq, Deliveries: u.From.Deliveries, Data: u.Data,
		}
		// The content too: a log that was made anew has another message of this number.
		if err := d.write(ctx, fmt.Sprintf("dead:message:%d:%x", u.From.Seq, sha256.Sum256(u.Data)), letter); err != nil {
			return err
		}
	}
	return nil
}

// Held keeps every order of the decisions that is held. It is called before the
// acknowledgement, and again on every redelivery: an order that had been held before
// is kept only if it is not yet.
func (d *DeadLetters) Held(ctx context.Context, decisions []Decision) error {
	kept, err := d.of(ctx, decisions, func(d Decision) bool { return d.Status == admission.Held && d.Already })
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, l := range kept {
		has[l.Order.ID] = true
	}
	for _, decision := range decisions {
		if decision.Status != admission.Held || has[decision.ID] {
			continue
		}
		letter := DeadLetter{
			Version: letterVersion, Order: &decision.Order, Activity: decision.Activity, Reason: "unsettleable",
			Detail: decision.Reason, Seq: decision.Seq, Deliveries: decision.Deliveries,
		}
		if err := d.write(ctx, "dead:"+decision.ID, letter); err != nil {
			return err
		}
	}
	return nil
}

// Decided removes the dead letters of orders that were held and are decided now.
func (d *DeadLetters) Decided(ctx context.Context, decisions []Decision) error {
	letters, err := d.of(ctx, decisions, func(d Decision) bool { return d.Reopened })
	if err != nil {
		return err
	}
	return d.Remove(ctx, letters...)
}

// of finds the dead letters of the wanted decisions, in one reading an activity.
func (d *DeadLetters) of(ctx context.Context, decisions []Decision, wanted func(Decision) bool) ([]Letter, error) {
	orders := map[string]map[string]bool{}
	for _, decision := range decisions {
		if wanted(decision) {
			if orders[decision.Activity] == nil {
				orders[decision.Activity] = map[string]bool{}
			}
			orders[decision.Activity][decision.ID] = true
		}
	}
	var letters []Letter
	for activity, ids := range orders {
		found, err := d.Find(ctx, activity, func(l Letter) bool { return l.Order != nil && ids[l.Order.ID] })
		if err != nil {
			return nil, err
		}
		letters = append(letters, found...)
	}
	return letters, nil
}

func letterOf(order string) func(Letter) bool {
	return func(l Letter) bool { return l.Order != nil && l.Order.ID == order }
}

func (d *DeadLetters) write(ctx context.Context, id string, letter DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, deadTimeout)
	defer cancel()
	letter.At = time.Now().UTC()
	data, err := json.Marshal(letter)
	if err != nil {
		return fmt.Errorf("encode dead letter %s: %w", id, err)
	}
	msg := &nats.Msg{Subject: d.namespace + ".dead." + letter.Activity, Data: data}
	admission.TraceOnto(ctx, msg)
	if _, err := d.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id), jetstream.WithExpectStream(d.StreamName())); err != nil {
		return fmt.Errorf("write dead letter %s: %w", id, err)
	}
	return nil
}
