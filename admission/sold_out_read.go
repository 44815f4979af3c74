package admission

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"time"
)

var soldOutScript = script("sold_out")

// soldOutLook is what the gate shows of an activity at one moment, while it admits.
type soldOutLook struct {
	epoch   int64
	version string           // rises whenever units come back
	all     bool             // nothing of the sale is left
	limits  map[string]int64 // of the SKUs that are sold out
}

func (l soldOutLook) has(sku string) bool {
	_, out := l.limits[sku]
	return out
}

func (l soldOutLook) same(o soldOutLook) bool {
	return l.epoch == o.epoch && l.version == o.version && l.all == o.all && maps.Equal(l.limits, o.limits)
}

var errNotSelling = errors.New("the sale admits nobody now")

// lookSoldOut looks at a gate of an epoch. Any error: nothing can be said.
func (g *Gate) lookSoldOut(ctx context.Context, activity string, epoch int64) (soldOutLook, error) {
	reply, err := g.run(ctx, soldOutScript, g.keys(activity, "gate", "stock"), []any{epoch})
	if err != nil {
		return soldOutLook{}, fmt.Errorf("look what of activity %s is sold out: %w", activity, err)
	}
	switch text(reply[0]) {
	case "open":
	case "closed":
		return soldOutLook{}, errNotSelling
	default:
		return soldOutLook{}, notReady(activity, reply)
	}
	look := soldOutLook{epoch: epoch, version: text(reply[1]), all: text(reply[2]) == "1", limits: map[string]int64{}}
	for i := 3; i+1 < len(reply); i += 2 {
		if look.limits[text(reply[i])], err = strconv.ParseInt(text(reply[i+1]), 10, 64); err != nil {
			return soldOutLook{}, fmt.Errorf("the gate of activity %s is damaged, rebuild it: %w", activity, err)
		}
	}
	return look, nil
}

// readSoldOut fills the memory of the lane and keeps it as long as it is true and
// somebody asks.
func (l *lane) readSoldOut() {
	m, began := &l.memory, time.Now()
	r, held := l.beginSoldOut()
	rest := max(soldOutEvery, soldOutRest*time.Since(began))
	if r != nil {
		l.keepSoldOut(r)
	}
	m.now.Store(nil)
	l.service.hashes.Add(-held)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.again = false, time.Now().Add(rest)
}

// beginSoldOut looks at the gate, reads who has an order, and looks again; nil: there
// is nothing to remember, or it could not be read. It returns how many hashes it holds.
func (l *lane) beginSoldOut() (*remembered, int64) {
	ctx, cancel := context.WithTimeout(l.service.open, soldOutReading)
	defer cancel()
	p, err := l.service.catalog.get(ctx, l.activity, -1)
	if err != nil {
		return nil, 0
	}
	look, err := l.service.gate.lookSoldOut(ctx, l.activity, p.activity.Epoch)
	if err != nil || len(look.limits) == 0 {
		return nil, 0
	}
	first := &remembered{look: look, answers: map[string]*Problem{}}
	for sku := range look.limits {
		first.answers[sku] = soldOutOf(sku).ready()
	}
	l.memory.now.Store(first) // from here on, a reservation through this node is noticed
	buyers, held, err := l.readBuyers(ctx)
	if err != nil {
		return nil, held
	}
	return l.lookAgain(first, buyers), held
}

// keepSoldOut looks again and again, until something is different, nobody asks any
// more, or the service closes.
func (l *lane) keepSoldOut(r *remembered) {
	tick := time.NewTicker(soldOutEvery)
	defer tick.Stop()
	for asked := time.Now(); r != nil && time.Since(asked) < soldOutIdle; {
		select {
		case <-l.service.open.Done():
			return
		case <-tick.C:
		}
		if l.memory.asked.Swap(false) {
			asked = time.Now()
		}
		r = l.lookAgain(r, r.buyers)
	}
}

// lookAgain looks at the gate once more; nil: the memory is over.
func (l *lane) lookAgain(before *remembered, buyers []uint64) *remembered {
	next := &remembered{look: before.look, buyers: buyers, at: time.Now(), answers: before.answers}
	look, err := l.service.gate.lookSoldOut(l.service.open, l.activity, before.look.epoch)
	if err != nil || !look.same(before.look) || !l.memory.now.CompareAndSwap(before, next) {
		return nil
	}
	return next
}

var errNotRemembered = errors.New("the buyers are too many to remember, or a record cannot be read")

// readBuyers reads the hashes of all who have a record at the gate, released ones too,
// and returns how many it counts as held: all of an error, too.
func (l *lane) readBuyers(ctx context.Context) (buyers []uint64, held int64, err error) {
	s := l.service
	for cursor := uint64(0); ; {
		page, next, err := s.gate.Records(ctx, l.activity, cursor)
		if err != nil {
			return nil, held, err
		}
		n := int64(len(page.List))
		held += n
		if s.hashes.Add(n) > mostRemembered || len(page.Damaged) > 0 {
			return nil, held, errNotRemembered
		}
		for _, r := range page.List {
			buyers = append(buyers, maphash.String(buyerSeed, r.User))
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	slices.Sort(buyers)
	buyers = slices.Clone(slices.Compact(buyers))
	s.hashes.Add(int64(len(buyers)) - held)
	return buyers, int64(len(buyers)), nil
}
