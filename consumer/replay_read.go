package consumer

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"seckill/admission"
)

// moveTimeout bounds the commit of a position; it is made after an interrupt too, so
// that what was reported need not be done again.
const moveTimeout = 5 * time.Second

// replaying is one replay at work.
type replaying struct {
	*Replay
	run     ReplayRun
	planned bool // nothing is changed

	first     uint64           // message of the stream when this reading began
	holds     map[int]*settler // of mode apply: the partitions it settles
	limit     *rate.Limiter    // nil: none
	chunk     chunk
	open      ReplayCounts // of the chunk that stopped it, whose position is not committed
	undecided uint64
}

// chunk is what has been read and is not done.
type chunk struct {
	items    []replayItem
	messages uint64
	through  uint64 // the last message read
	broken   []Letter
	letters  []openLetter
}

// replayItem is one selected order.
type replayItem struct {
	admission.Order
	activity string
	epoch    int64
	seq      uint64
	from     uint64 // message of the log that has it
	held     bool   // to be decided although it is held
	settled  bool   // it is known to be decided: it is only reported
}

// openLetter is a dead letter that goes when its orders are decided.
type openLetter struct {
	Letter
	orders []string
}

func (p *replaying) summary() ReplaySummary {
	s := ReplaySummary{Run: p.run.ID, FromSeq: p.run.From, ToSeq: p.run.To, ReplayCounts: p.run.Counts, Undecided: p.undecided}
	s.add(p.open)
	return s
}

// read does everything from the position to the end.
func (p *replaying) read(ctx context.Context) error {
	b, err := p.bounds(ctx, p.run.Selection.Source)
	if err != nil {
		return err
	}
	p.first = b.first
	if p.Rate > 0 {
		p.limit = rate.NewLimiter(rate.Limit(p.Rate), p.Rate)
		p.limit.AllowN(time.Now(), p.Rate) // begin at the rate, not with a burst
	}
	read := p.readLog
	if p.run.Selection.Source == ReplayDead {
		read = p.readLetters
	}
	if p.run.Position < p.run.To {
		if err := read(ctx); err != nil {
			return err
		}
	}
	p.chunk.through = max(p.run.To, p.run.Position)
	return p.flush(ctx, true)
}

func (p *replaying) readLog(ctx context.Context) error {
	filter := p.run.Selection.filter(p.Log)
	if filter == "" {
		return nil
	}
	return p.Log.Read(ctx, filter, p.run.Position+1, p.run.To, func(page []admission.Message, left uint64) error {
		for _, m := range page {
			p.takeMessage(m)
			if err := p.flushFull(ctx); err != nil {
				return err
			}
		}
		p.progress(left)
		return nil
	})
}

func (p *replaying) progress(left uint64) {
	if p.Progress != nil {
		read := p.run.Counts.Read + p.chunk.messages
		p.Progress(read, read+left)
	}
}

// takeMessage takes the selected orders of a message. One that cannot be read is
// among the dead letters.
func (p *replaying) takeMessage(m admission.Message) {
	p.chunk.messages++
	p.chunk.through = m.Seq
	b, err := admission.DecodeBatch(m.Data)
	if err != nil {
		return
	}
	// A copy whose originals this replay reads too would come twice, and again in
	// the replay after this one.
	if c := b.Replay; c != nil && c.From > 0 && c.From >= max(p.run.From, p.first) {
		return
	}
	for _, o := range b.Orders {
		if p.run.Selection.wants(b.Activity, o) {
			p.chunk.items = append(p.chunk.items, replayItem{Order: o, activity: b.Activity, epoch: b.Epoch, seq: m.Seq, from: m.Seq})
		}
	}
}

func (p *replaying) readLetters(ctx context.Context) error {
	return p.Dead.Read(ctx, p.run.Selection.Activity, p.run.Position+1, p.run.To, func(page []Letter, left uint64) error {
		var ids []string
		for _, l := range page {
			if l.Order != nil {
				ids = append(ids, l.Order.ID)
			}
		}
		held, err := p.Ledger.HeldOrders(ctx, ids)
		if err != nil {
			return err
		}
		for _, l := range page {
			p.takeLetter(l, held)
			if err := p.flushFull(ctx); err != nil {
				return err
			}
		}
		p.progress(left)
		return nil
	})
}

// takeLetter takes the order of a dead letter, as its row has it, or those of a log
// message that can be read now.
func (p *replaying) takeLetter(l Letter, held map[string]HeldOrder) {
	p.chunk.messages++
	p.chunk.through = l.Number
	s := p.run.Selection
	if !s.wantsSeq(l.Seq) {
		return
	}
	if l.Order == nil {
		p.takeBroken(l)
		return
	}
	if !s.wants(l.Activity, *l.Order) || s.Partition != nil && *s.Partition != p.Log.Partition(l.Activity) {
		return
	}
	item := replayItem{Order: *l.Order, activity: l.Activity, seq: l.Seq, settled: true}
	if h, ok := held[l.Order.ID]; ok {
		item = replayItem{Order: h.Order, activity: h.Activity, epoch: h.Epoch, seq: l.Seq, from: l.Seq, held: true}
	}
	p.chunk.items = append(p.chunk.items, item)
	p.chunk.letters = append(p.chunk.letters, openLetter{l, []string{l.Order.ID}})
}

func (p *replaying) takeBroken(l Letter) {
	s := p.run.Selection
	b, err := admission.DecodeBatch(l.Data)
	if err != nil {
		if !s.picksOrders() {
			p.chunk.broken = append(p.chunk.broken, l)
		}
		return
	}
	letter := openLetter{Letter: l}
	for _, o := range b.Orders {
		letter.orders = append(letter.orders, o.ID)
		if s.wants(b.Activity, o) && (s.Partition == nil || *s.Partition == p.Log.Partition(b.Activity)) {
			p.chunk.items = append(p.chunk.items, replayItem{Order: o, activity: b.Activity, epoch: b.Epoch, seq: l.Seq, from: l.Seq})
		}
	}
	p.chunk.letters = append(p.chunk.letters, letter)
}
