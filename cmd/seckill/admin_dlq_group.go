package main

import (
	"context"
	"errors"

	"seckill/admission"
	"seckill/consumer"
)

// LetterGroup selects the dead letters that look alike, as the list groups them, up to
// one number: what dies later is not meant. It is exported because huma leaves out what a
// type embeds that is not.
type LetterGroup struct {
	Activity string `json:"activity" query:"activity" required:"true" minLength:"1"`
	Reason   string `json:"reason" query:"reason" required:"true" minLength:"1"`
	Detail   string `json:"detail" query:"detail" required:"true" doc:"of the group in the list; numbers and ids in it are #"`
	UpTo     uint64 `json:"up_to,omitempty" query:"up_to" doc:"number of the last letter that is meant, as counted before; 0: the newest"`
}

func groupOf(l consumer.Letter) [3]string {
	return [3]string{l.Activity, l.Reason, particulars.ReplaceAllString(l.Detail, "#")}
}

// each hands on the letters of the group after a number, oldest first, and returns the
// number of the last that is meant.
func (g LetterGroup) each(ctx context.Context, dead *consumer.DeadLetters, after uint64, do func(consumer.Letter) error) (last uint64, err error) {
	last, err = dead.Last(ctx)
	if g.UpTo > 0 {
		last = min(last, g.UpTo)
	}
	if err != nil || last <= after {
		return last, err
	}
	err = dead.Read(ctx, "", after+1, last, func(page []consumer.Letter, _ uint64) error {
		for _, l := range page {
			if groupOf(l) != [3]string{g.Activity, g.Reason, g.Detail} {
				continue
			}
			if err := do(l); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

type groupInput struct {
	LetterGroup
}

type groupOutput struct {
	Body struct {
		Letters int    `json:"letters"`
		Units   int64  `json:"units" doc:"of their orders"`
		UpTo    uint64 `json:"up_to" doc:"to be given to a replay or drop of the group, so that it means these letters"`
	}
}

// count is what a replay or drop of a whole group would decide. It changes nothing.
func (a *dlqAPI) count(ctx context.Context, in *groupInput) (*groupOutput, error) {
	out := &groupOutput{}
	last, err := in.each(ctx, a.node.stores.dead(a.node.config), 0, func(l consumer.Letter) error {
		out.Body.Letters++
		if l.Order != nil {
			out.Body.Units += l.Order.Quantity
		}
		return nil
	})
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out.Body.UpTo = last
	return out, nil
}

// rulingGroup is a group to decide, a piece at a time.
type rulingGroup struct {
	LetterGroup
	After uint64 `json:"after,omitempty" doc:"next of the piece before"`
	Limit int    `json:"limit,omitempty" minimum:"1" maximum:"100" default:"100"`
}

// piece is the ids of the next letters of a group, and the number after which more
// follow; 0: none do.
func (g rulingGroup) piece(ctx context.Context, dead *consumer.DeadLetters) (ids []string, next uint64, err error) {
	var newest uint64
	_, err = g.each(ctx, dead, g.After, func(l consumer.Letter) error {
		if len(ids) == g.Limit {
			next = newest
			return errEnough
		}
		ids, newest = append(ids, l.ID()), l.Number
		return nil
	})
	return ids, next, err
}
