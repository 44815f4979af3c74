package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"seckill/admission"
)

// Desk is where an operator decides what became a dead letter. All methods may be
// repeated, also after an error, and beside running workers.
type Desk struct {
	Ledger *Ledger
	Gate   *admission.Gate
	Log    *admission.Log
	Dead   *DeadLetters
	Logger *slog.Logger
}

// Ruling is what an operator's word has done.
type Ruling struct {
	ID     string           `json:"id"`
	Result string           `json:"result"` // decided, already, appended (read now, and back in the log) or removed
	Status admission.Status `json:"status,omitempty"`
	Reason string           `json:"reason,omitempty"`
}

// Replay decides a held order now, by limit and stock; a log message that could not
// be read is read again and appended to the log. What still cannot be settled or
// read stays a dead letter, and the error says why.
func (d *Desk) Replay(ctx context.Context, id string) (Ruling, error) {
	return d.rule(ctx, id, d.Ledger.DecideHeld, d.appendAgain)
}

// Drop rejects a held order for good, and its units go back to the gate; a log
// message that cannot be read is removed.
func (d *Desk) Drop(ctx context.Context, id string) (Ruling, error) {
	return d.rule(ctx, id, d.Ledger.DropHeld, d.discard)
}

func (d *Desk) rule(
	ctx context.Context, id string,
	order func(context.Context, string) (Decision, error), message func(context.Context, Letter) (Ruling, error),
) (Ruling, error) {
	if number, ok := letterNumber(id); ok {
		letter, err := d.Dead.At(ctx, number)
		if err != nil {
			return Ruling{}, err
		}
		if letter.Order == nil {
			return message(ctx, letter)
		}
		id = letter.Order.ID
	}
	decision, err := order(ctx, id)
	if errors.Is(err, ErrNotHeld) {
		return d.already(ctx, id)
	}
	if err != nil {
		return Ruling{}, err
	}
	if decision.Status == admission.Held {
		return Ruling{}, fmt.Errorf("order %s cannot be settled as it stands and stays held: %s", id, decision.Reason)
	}
	d.tell(ctx, decision)
	d.Log.Notify([]string{decision.ID})
	if err := d.Dead.Decided(ctx, []Decision{decision}); err != nil {
		return Ruling{}, fmt.Errorf("order %s is %s; its dead letter is left: %w", id, decision.Status, err)
	}
	return Ruling{ID: id, Result: "decided", Status: decision.Status, Reason: decision.Reason}, nil
}

// letterNumber reads letter-<number>.
func letterNumber(id string) (uint64, bool) {
	text, ok := strings.CutPrefix(id, "letter-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, ok && err == nil && number > 0
}

// IsLetterID says whether id names a log message that cannot be read.
func IsLetterID(id string) bool {
	_, ok := letterNumber(id)
	return ok
}

// tell brings the decision to the gate, best effort: a rejected order is marked until
// the release job has, an accepted one is pending there until the sweep has.
func (d *Desk) tell(ctx context.Context, decision Decision) {
	if decision.Status.Live() || decision.Epoch == 0 {
		tellGate(ctx, d.Gate, d.Logger, []Decision{decision})
		return
	}
	d.tellDead(ctx, gateLife{decision.Activity, decision.Epoch}, decision.ID)
}

func (d *Desk) tellDead(ctx context.Context, life gateLife, id string) {
	ids := []string{id}
	done, err := released(ctx, d.Gate, life, ids)
	if err == nil && done {
		err = d.Ledger.clearRelease(ctx, life, ids)
	}
	if err != nil {
		d.Logger.Warn("gate was not told; the release job will", "activity", life.activity, "order", id, "error", err)
	}
}

// Cancel makes an order dead for an operator, and its units can be sold again: a live
// one, paid ones included, a held one, or one in flight. Who and why comes from ctx.
func (d *Desk) Cancel(ctx context.Context, c admission.Cancellation) (admission.Row, error) {
	done, err := d.Ledger.Cancel(ctx, c)
	if err != nil {
		return admission.Row{}, err
	}
	if done.Epoch > 0 { // else no gate is believed, and the next one is filled without it
		d.tellDead(ctx, gateLife{done.Row.Activity, done.Epoch}, done.Row.ID)
	}
	d.Log.Notify([]string{done.Row.ID})
	if done.Was == admission.Held {
		if _, err := d.already(ctx, done.Row.ID); err != nil {
			d.Logger.Warn("the dead letter of a cancelled order is left; seckill dlq shows it as decided", "order", done.Row.ID, "error", err)
		}
	}
	return done.Row, nil
}

// already removes what is left of a dead letter whose order is decided.
func (d *Desk) already(ctx context.Context, id string) (Ruling, error) {
	rows, err := d.Ledger.Orders(ctx, []string{id})
	if err != nil {
		return Ruling{}, err
	}
	letters, err := d.Dead.Find(ctx, "", letterOf(id))
	if err != nil {
		return Ruling{}, err
	}
	row, ok := rows[id]
	switch {
	case !ok && len(letters) == 0:
		return Ruling{}, fmt.Errorf("order %s: %w", id, ErrNoLetter)
	case !ok:
		return Ruling{}, fmt.Errorf("order %s has a dead letter and no row: the ledger has lost it; let a worker settle the log from message %d first", id, letters[0].Seq)
	}
	if err := d.Dead.Remove(ctx, letters...); err != nil {
		return Ruling{}, err
	}
	return Ruling{ID: id, Result: "already", Status: row.Status, Reason: row.Reason}, nil
}

// appendAgain reads a log message once more and, if this release can, appends its
// orders under a new message id.
func (d *Desk) appendAgain(ctx context.Context, l Letter) (Ruling, error) {
	b, err := admission.DecodeBatch(l.Data)
	if err != nil {
		return Ruling{}, fmt.Errorf("%s stays a dead letter: %w", l.ID(), err)
	}
	b.ID, b.Replay = admission.NewID(), &admission.Replayed{From: l.Seq}
	appending, cancel := context.WithTimeout(ctx, admission.PublishDeadline)
	defer cancel()
	if _, err := d.Log.Append(appending, b); err != nil {
		return Ruling{}, fmt.Errorf("%s stays a dead letter; try again: %w", l.ID(), err)
	}
	detail := fmt.Sprintf("%d orders of log message %d appended again", len(b.Orders), l.Seq)
	if err := d.Ledger.Note(ctx, "replay dead letter", l.ID(), detail); err != nil {
		return Ruling{}, err
	}
	if err := d.Dead.Remove(ctx, l); err != nil {
		return Ruling{}, err
	}
	return Ruling{ID: l.ID(), Result: "appended", Reason: detail}, nil
}

// discard removes a message that cannot be read. What it was stays in the activity
// log's words only.
func (d *Desk) discard(ctx context.Context, l Letter) (Ruling, error) {
	detail := fmt.Sprintf("log message %d, %d bytes: %s", l.Seq, len(l.Data), l.Detail)
	if err := d.Ledger.Note(ctx, "drop dead letter", l.ID(), detail); err != nil {
		return Ruling{}, err
	}
	if err := d.Dead.Remove(ctx, l); err != nil {
		return Ruling{}, err
	}
	return Ruling{ID: l.ID(), Result: "removed", Reason: l.Detail}, nil
}
