package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// askAgain is how often a node that has waiting buyers asks the ledger about all of
// them, in case a notice was lost or a change had none.
const askAgain = time.Second

// mostWaiting bounds the waiting buyers of a node, streams included.
const mostWaiting = 20_000

var errTooManyWait = errors.New("too many buyers wait for their orders")

// waiting answers buyers who wait for a change of their orders. A notice names the
// orders of a settled batch; those that are waited for are read in one question. So
// the cost grows with what is settled, not with how many wait.
type waiting struct {
	service *Service
	deaf    func()        // ends the listening; nil: there was none
	done    chan struct{} // closed when the node stops: everybody is answered at once
	once    sync.Once
	wake    chan struct{}

	mu      sync.Mutex
	orders  map[string][]chan Row
	due     map[string]bool // changed, by a notice
	total   int
	running bool
}

func newWaiting(s *Service) *waiting {
	w := &waiting{
		service: s, done: make(chan struct{}), wake: make(chan struct{}, 1),
		orders: map[string][]chan Row{}, due: map[string]bool{},
	}
	var err error
	if w.deaf, err = s.log.notices(w.heard); err != nil {
		s.logger.Warn("waiting buyers are answered within a second only", "error", err)
	}
	return w
}

func (w *waiting) hurry() {
	w.once.Do(func() {
		close(w.done)
		if w.deaf != nil {
			w.deaf()
		}
	})
}

// Wait reads an order and, while it is not decided, waits for the decision until
// ctx ends; then it answers what is known.
func (s *Service) Wait(ctx context.Context, activity, user, id string) (Row, error) {
	if ctx.Err() != nil {
		return s.look(ctx, s.Find, activity, user, id)
	}
	w, err := s.watch(ctx, activity, user, id)
	if err != nil {
		return Row{}, err
	}
	defer w.stop()
	if w.row.Status != Accepted || w.changes == nil {
		return w.row, nil
	}
	select {
	case row := <-w.changes:
		return row, nil
	case <-s.waiting.done:
	case <-ctx.Done():
	}
	return w.row, nil
}

// watch is one buyer's eye on one order.
type watch struct {
	row     Row        // as it was when the watch began
	changes <-chan Row // the newest state after each change, or the same again
	stop    func()
}

// watch begins to watch an order: first the changes, then the look, so that none
// falls in between. Changes is nil if too many watch already.
func (s *Service) watch(ctx context.Context, activity, user, id string) (watch, error) {
	changes, stop, err := s.waiting.add(id)
	if err != nil {
		changes, stop = nil, func() {} // the honest answer is the present one
	}
	row, err := s.look(ctx, s.peek, activity, user, id)
	if err != nil {
		stop()
		return watch{}, err
	}
	return watch{row: row, changes: changes, stop: stop}, nil
}

type finder func(ctx context.Context, activity, user, id string) (Row, error)

func (s *Service) look(ctx context.Context, find finder, activity, user, id string) (Row, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	return find(ctx, activity, user, id)
}

// peek is Find for somebody who watches: it spares the ledger while the gate has the
// reservation as pending. The gate is told before the nodes are, so a decision that
// it does not have yet is still to be heard of.
func (s *Service) peek(ctx context.Context, activity, user, id string) (Row, error) {
	r, found, err := s.gate.Find(ctx, activity, id)
	if err == nil && found && r.User == user && r.State == Pending {
		return s.undecided(ctx, activity, r)
	}
	return s.Find(ctx, activity, user, id)
}

func (w *waiting) add(id string) (<-chan Row, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total >= mostWaiting {
		return nil, nil, errTooManyWait
	}
	c := make(chan Row, 1)
	w.orders[id] = append(w.orders[id], c)
	w.count(1)
	if !w.running {
		w.running = true
		w.service.work.Go(w.run)
	}
	return c, func() { w.remove(id, c) }, nil
}

func (w *waiting) count(more int) {
	w.total += more
	w.service.metrics.waiting.Set(float64(w.total))
}

func (w *waiting) remove(id string, c chan Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.orders[id] {
		if other == c {
			w.orders[id] = append(w.orders[id][:i], w.orders[id][i+1:]...)
			w.count(-1)
			break
		}
	}
	if len(w.orders[id]) == 0 {
		delete(w.orders, id)
		delete(w.due, id)
	}
}

// heard notes which orders that are waited for have changed.
func (w *waiting) heard(ids []string) {
	w.mu.Lock()
	for _, id := range ids {
		if w.orders[id] != nil {
			w.due[id] = true
		}
	}
	due := len(w.due) > 0
	w.mu.Unlock()
	if due {
		select {
		case w.wake <- struct{}{}:
		default: // it is awake, and will see them
		}
	}
}

func (w *waiting) stopped() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// run asks for what is due, and now and then for everything, while somebody waits.
func (w *waiting) run() {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-w.wake:
		case <-tick.C:
			all = true
		case <-w.done:
		}
		ids, more := w.next(all)
		if !more {
			return
		}
		if len(ids) > 0 {
			w.ask(ids)
		}
	}
}

// next lists the orders to ask for; more is false when nobody waits and the goroutine
// is to end.
func (w *waiting) next(all bool) (ids []string, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all {
		for id := range w.orders {
			ids = append(ids, id)
		}
	} else {
		for id := range w.due {
			ids = append(ids, id)
		}
	}
	clear(w.due)
	w.running = len(w.orders) > 0 && !w.stopped()
	return ids, w.running
}

func (w *waiting) ask(ids []string) {
	ctx, cancel := context.WithTimeout(w.service.life, lookupTimeout)
	defer cancel()
	rows, err := w.service.ledger.Orders(ctx, ids)
	if err != nil {
		return // the ledger is away: they go on waiting, each until its own limit
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, row := range rows {
		for _, c := range w.orders[id] {
			select {
			case <-c: // not read yet, and old
			default:
			}
			c <- row
		}
	}
}
