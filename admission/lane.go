package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// batchesInFlight is how many batches of an activity may wait for the log at once:
// while one is synced to disk the next is reserved and sent. More would only make
// the batches smaller.
const batchesInFlight = 2

// retryRefused is the pause between offers of a batch that the log refused.
const retryRefused = 500 * time.Millisecond

// waiter is one request in a lane.
type waiter struct {
	order Order
	reply chan reply // of capacity 1: the lane never waits for a buyer
	state atomic.Int32
	ask   trace.Span // of the request; nil: not traced
}

const (
	waiterQueued int32 = iota // may still go away untouched
	waiterTaken               // is part of a batch
	waiterGone                // went away before its turn
)

type reply struct {
	reservation Reservation
	repeat      bool
	err         error
}

// lane is the line of requests for one activity. Those that arrive while a batch
// is at the gate form the next one: no timer, so an idle lane serves one buyer at
// once and a busy one amortises everything. It has a goroutine only while somebody
// waits.
type lane struct {
	service  *Service
	activity string
	slots    chan struct{} // batches in flight to the log
	refusing atomic.Bool   // the log refused a batch and has taken none since
	memory   soldOut

	mu      sync.Mutex
	queue   []*waiter
	running bool
}

func (l *lane) push(w *waiter) error {
	if l.refusing.Load() {
		return NewProblem(CodeOverloaded, "The order log takes no orders now; ask again in a moment.").by("log")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= l.service.config.QueueLimit {
		return NewProblem(CodeOverloaded, "Too many buyers are waiting; ask again in a moment.").by("queue")
	}
	l.queue = append(l.queue, w)
	if !l.running {
		l.running = true
		l.service.work.Go(l.run)
	}
	return nil
}

// next takes the batch that has formed, or ends the lane's goroutine.
func (l *lane) next() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.queue) && n < MaxBatchOrders {
		bytes += l.queue[n].order.size()
		if n > 0 && bytes > MaxBatchBytes {
			break
		}
		n++
	}
	if n == 0 {
		l.running, l.queue = false, nil
		return nil
	}
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	return batch
}

func (l *lane) run() {
	for {
		l.slots <- struct{}{}
		taken := l.next()
		if taken == nil {
			<-l.slots
			return
		}
		batch := taken[:0:0]
		for _, w := range taken {
			if w.state.CompareAndSwap(waiterQueued, waiterTaken) {
				batch = append(batch, w)
			}
		}
		if len(batch) == 0 {
			<-l.slots
			continue
		}
		// The publish deadline counts from before the gate is asked.
		ctx, cancel := context.WithTimeout(l.service.life, PublishDeadline)
		ctx, step := l.service.tracing.batch(ctx, l.activity, batch)
		admitted, err := l.reserve(ctx, batch)
		if err != nil {
			step.End(err)
			cancel()
			<-l.slots
			fail(batch, err)
			continue
		}
		l.service.work.Go(func() {
			defer func() { <-l.slots }()
			defer cancel()
			defer step.End(nil)
			l.finish(ctx, admitted)
		})
	}
}

func fail(batch []*waiter, err error) {
	for _, w := range batch {
		w.reply <- reply{err: err}
	}
}
