package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// waitTick is how often a node that has waiting buyers asks the ledger about all
// of them at once: the cost does not grow with their number.
const waitTick = 50 * time.Millisecond

// mostWaiting bounds the waiting buyers of a node, and the ids of one question.
const mostWaiting = 20_000

// waiting answers buyers who wait for a decision.
type waiting struct {
	service *Service
	done    chan struct{} // closed when the node stops: everybody is answered at once
	once    sync.Once

	mu      sync.Mutex
	orders  map[string][]chan Row
	total   int
	running bool
}

func newWaiting(s *Service) *waiting {
	return &waiting{service: s, done: make(chan struct{}), orders: map[string][]chan Row{}}
}

func (w *waiting) hurry() { w.once.Do(func() { close(w.done) }) }

// Wait reads an order and, while it is not decided, waits for the decision until
// ctx ends; then it answers what is known.
func (s *Service) Wait(ctx context.Context, activity, user, id string) (Row, error) {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	row, err := s.Find(look, activity, user, id)
	if err != nil || row.Status != Accepted {
		return row, err
	}
	decided, stop, err := s.waiting.add(id)
	if err != nil {
		return row, nil // too many wait: the honest answer is the present one
	}
	defer stop()
	select {
	case row = <-decided:
		return row, nil
	case <-s.waiting.done:
		return row, nil
	case <-ctx.Done():
		return row, nil
	}
}

var errTooManyWait = errors.New("too many buyers wait for a decision")

func (w *waiting) add(id string) (<-chan Row, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total >= mostWaiting {
		return nil, nil, errTooManyWait
	}
	c := make(chan Row, 1)
	w.orders[id] = append(w.orders[id], c)
	w.total++
	if !w.running {
		w.running = true
		w.service.work.Go(w.run)
	}
	return c, func() { w.remove(id, c) }, nil
}

func (w *waiting) remove(id string, c chan Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.orders[id] {
		if other == c {
			w.orders[id] = append(w.orders[id][:i], w.orders[id][i+1:]...)
			w.total--
			break
		}
	}
	if len(w.orders[id]) == 0 {
		delete(w.orders, id)
	}
}

// ids lists the orders waited for, or ends the goroutine when there are none.
func (w *waiting) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, 0, len(w.orders))
	for id := range w.orders {
		ids = append(ids, id)
	}
	w.running = len(ids) > 0
	return ids
}

func (w *waiting) run() {
	tick := time.NewTicker(waitTick)
	defer tick.Stop()
	for {
		ids := w.ids()
		if len(ids) == 0 {
			return
		}
		w.ask(ids)
		select {
		case <-tick.C:
		case <-w.service.life.Done():
		}
	}
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
			case c <- row:
			default: // told already, not yet gone
			}
		}
	}
}
