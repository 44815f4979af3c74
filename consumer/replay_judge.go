package consumer

import (
	"context"

	"seckill/admission"
)

// flushFull does the chunk if it is full. At a low rate a chunk is a second's work,
// so that an interrupt comes soon and costs little.
func (p *replaying) flushFull(ctx context.Context) error {
	most := replayOrders
	if p.Rate > 0 {
		most = min(most, p.Rate)
	}
	if len(p.chunk.items)+len(p.chunk.letters) < most && p.chunk.messages < replayMessages {
		return nil
	}
	return p.flush(ctx, false)
}

// flush passes the chunk through settlement, reports how its orders ended and commits
// the position. A chunk that the workers did not decide in time stops the replay: its
// position is not committed, so a resumed one begins with it.
func (p *replaying) flush(ctx context.Context, last bool) error {
	c := p.chunk
	p.chunk = chunk{items: c.items[:0], letters: c.letters[:0]}
	late, err := p.pass(ctx, c.items)
	if err != nil {
		return err
	}
	ends, err := p.endsOf(ctx, c)
	if err != nil {
		return err
	}
	lines, counts := p.judge(c, ends)
	if p.Report != nil && len(lines) > 0 && !p.planned {
		if err := p.Report(lines); err != nil {
			return err
		}
	}
	switch {
	case p.planned:
		p.run.Counts.add(counts)
		p.run.Position = c.through
		return nil
	case late && counts.Unknown > 0:
		p.open = counts
		return ErrUndecided
	}
	move, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTimeout)
	defer cancel()
	if err := p.removeLetters(move, c, ends); err != nil {
		return err
	}
	return p.Ledger.moveRun(move, &p.run, c.through, counts, last)
}

// pass sends the orders through settlement; late says that some may not be decided
// yet.
func (p *replaying) pass(ctx context.Context, items []replayItem) (late bool, err error) {
	switch {
	case p.planned || len(items) == 0:
		return false, ctx.Err()
	case p.run.Selection.Mode == ReplayApply:
		return false, p.apply(ctx, items)
	}
	return p.republish(ctx, items)
}

func (p *replaying) endsOf(ctx context.Context, c chunk) (map[string]ended, error) {
	ids := make([]string, 0, len(c.items))
	for _, item := range c.items {
		ids = append(ids, item.ID)
	}
	for _, l := range c.letters {
		ids = append(ids, l.orders...)
	}
	return p.Ledger.ends(ctx, ids, p.run.Started)
}

// judge says how every order of the chunk ended.
func (p *replaying) judge(c chunk, ends map[string]ended) ([]ReplayLine, ReplayCounts) {
	counts := ReplayCounts{Read: c.messages, Matched: uint64(len(c.items) + len(c.broken))}
	lines := make([]ReplayLine, 0, counts.Matched)
	for _, item := range c.items {
		line := ReplayLine{OrderID: item.ID, Seq: item.seq}
		e, ok := ends[item.ID]
		switch {
		case !ok && p.planned:
			p.undecided++
		case !ok:
			line.Result = "unknown"
			counts.Unknown++
		case e.status == admission.Held:
			line.Result, line.Reason = "dead", e.reason
			counts.Dead++
		case !e.now:
			line.Result = "already"
			counts.Already++
		case e.status == admission.Rejected:
			line.Result, line.Reason = "rejected", e.reason
			counts.Rejected++
		default:
			line.Result = "settled"
			counts.Settled++
		}
		lines = append(lines, line)
	}
	for _, l := range c.broken {
		lines = append(lines, ReplayLine{Seq: l.Seq, Result: "dead", Reason: l.ID() + " cannot be read: " + l.Detail})
		counts.Dead++
	}
	return lines, counts
}

// removeLetters takes away the dead letters whose orders are all decided.
func (p *replaying) removeLetters(ctx context.Context, c chunk, ends map[string]ended) error {
	var done []Letter
	for _, l := range c.letters {
		decided := true
		for _, id := range l.orders {
			e, ok := ends[id]
			decided = decided && ok && e.status != admission.Held
		}
		if decided {
			done = append(done, l.Letter)
		}
	}
	return p.Dead.Remove(ctx, done...)
}
