package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// ErrNoLetter says that there is no such dead letter.
var ErrNoLetter = errors.New("there is no such dead letter; see seckill dlq list")

// Letter is a dead letter with where it stands in its stream.
type Letter struct {
	DeadLetter
	Number uint64 // sequence number in the dead-letter stream
}

// ID names a letter for an operator: the order's id or, of a log message that cannot
// be read, letter-<number>.
func (l Letter) ID() string {
	if l.Order != nil {
		return l.Order.ID
	}
	return fmt.Sprintf("letter-%d", l.Number)
}

// Last is the newest sequence number of the dead-letter stream; 0: there is none.
func (d *DeadLetters) Last(ctx context.Context) (uint64, error) {
	stream, err := d.js.Stream(ctx, d.StreamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look stream %s up: %w", d.StreamName(), err)
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// Read hands the letters of an activity, or (empty) of all, to each, page by page
// and in order, from one number to another, both included.
func (d *DeadLetters) Read(ctx context.Context, activity string, from, to uint64, each func(page []Letter, left uint64) error) error {
	filter := d.namespace + ".dead.>"
	if activity != "" {
		filter = d.namespace + ".dead." + activity
	}
	return admission.ReadStream(ctx, d.js, d.StreamName(), filter, from, to, func(page []admission.Message, left uint64) error {
		letters := make([]Letter, len(page))
		for i, m := range page {
			letters[i] = decodeLetter(m)
		}
		return each(letters, left)
	})
}

// decodeLetter reads a letter. What cannot be read, or holds what no letter of ours
// does, is shown as it is: nothing in the stream is passed over.
func decodeLetter(m admission.Message) Letter {
	l := Letter{Number: m.Seq}
	err := json.Unmarshal(m.Data, &l.DeadLetter)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		l.DeadLetter = DeadLetter{
			Version: letterVersion, Activity: unknownActivity, Reason: "unreadable", Detail: "the letter itself: " + err.Error(), Data: m.Data,
		}
	}
	return l
}

func (l DeadLetter) check() error {
	switch {
	case l.Version != letterVersion:
		return fmt.Errorf("version %d is not known to this release, which reads version %d", l.Version, letterVersion)
	case !admission.ValidName(l.Activity):
		return fmt.Errorf("the activity %q is not a name", l.Activity)
	case l.Order != nil:
		return l.Order.Check()
	}
	return nil
}

// Find collects the wanted letters of an activity, or (empty) of all.
func (d *DeadLetters) Find(ctx context.Context, activity string, wanted func(Letter) bool) ([]Letter, error) {
	last, err := d.Last(ctx)
	if err != nil || last == 0 {
		return nil, err
	}
	var found []Letter
	err = d.Read(ctx, activity, 1, last, func(page []Letter, _ uint64) error {
		for _, l := range page {
			if wanted(l) {
				found = append(found, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look through the dead letters: %w", err)
	}
	return found, nil
}

// Remove takes decided letters out of the stream. It may be repeated.
func (d *DeadLetters) Remove(ctx context.Context, letters ...Letter) error {
	if len(letters) == 0 {
		return nil
	}
	stream, err := d.js.Stream(ctx, d.StreamName())
	if err != nil {
		return fmt.Errorf("look stream %s up: %w", d.StreamName(), err)
	}
	for _, l := range letters {
		err := stream.DeleteMsg(ctx, l.Number)
		if err == nil {
			continue
		}
		if _, look := stream.GetMsg(ctx, l.Number); !errors.Is(look, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("remove dead letter %d of %s: %w", l.Number, l.ID(), err)
		}
	}
	return nil
}

// At reads one letter by its number.
func (d *DeadLetters) At(ctx context.Context, number uint64) (Letter, error) {
	stream, err := d.js.Stream(ctx, d.StreamName())
	if err == nil {
		var m *jetstream.RawStreamMsg
		if m, err = stream.GetMsg(ctx, number); err == nil {
			return decodeLetter(admission.Message{Seq: m.Sequence, Subject: m.Subject, Data: m.Data}), nil
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		err = ErrNoLetter
	}
	return Letter{}, fmt.Errorf("read dead letter %d: %w", number, err)
}
