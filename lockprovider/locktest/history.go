package locktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"seckill/lockprovider"
)

// A history is what clients saw of one name, to be checked against the model of a
// lock: at most one holder, tokens that only rise.
//
// The operations are "taken" (from the call of Acquire to its return) and "ended"
// (released: from the call to the confirmation, or open; lost: from the taking to the
// moment when the holder knew). A holder that knows too late leaves no place for its
// end before the next taking, and the history is not linearizable.
type history struct {
	mu    sync.Mutex
	began time.Time
	ops   []porcupine.Operation
}

type step struct {
	token uint64
	ended bool
}

// lockState is the model's: the holder's token (0: free) and the last token given.
type lockState struct{ holder, last uint64 }

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(lockState), input.(step)
		if op.ended {
			return s.holder == op.token, lockState{0, s.last}
		}
		return s.holder == 0 && op.token > s.last, lockState{op.token, op.token}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) note(client int, s step, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: s, Call: call, Return: ret})
}

// check fails the case if no order of the operations explains the history.
func (h *history) check(e *Env) {
	e.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := 0
	for _, op := range h.ops {
		if !op.Input.(step).ended {
			taken++
		}
	}
	if taken == 0 {
		e.Errorf("a history without a single hold shows nothing")
	}
	switch porcupine.CheckOperationsTimeout(lockModel, h.ops, time.Minute) {
	case porcupine.Illegal:
		e.Breach("history of %d holds is not that of a lock", taken)
		for _, op := range h.ops {
			e.Logf("%v %+v %v..%v", op.ClientId, op.Input, time.Duration(op.Call), time.Duration(op.Return))
		}
	case porcupine.Unknown:
		e.Errorf("history of %d holds could not be decided in time", taken)
	}
	e.Logf("history of %d holds", taken)
}

// client takes and ends a name again and again until stop, noting what it sees.
func (h *history) client(e *Env, id int, p *lockprovider.Provider, name string, stop <-chan struct{}, work time.Duration) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*TTL)
		call := h.now()
		l, err := p.Acquire(ctx, name)
		if err != nil {
			cancel()
			if errors.Is(err, lockprovider.ErrClosed) {
				return
			}
			continue
		}
		taken := h.now()
		h.note(id, step{token: l.Token()}, call, taken)
		h.end(l, id, taken, work, n)
		cancel()
	}
}

// end works a while and gives back, or waits for the loss.
func (h *history) end(l *lockprovider.Lease, id int, taken int64, work time.Duration, n int) {
	t := time.NewTimer(work * time.Duration(1+n%3) / 2)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.Context().Done():
	}
	if l.Err() != nil {
		h.note(id, step{token: l.Token(), ended: true}, taken, h.now())
		return
	}
	call := h.now()
	err := l.Release(context.Background())
	ret := h.now()
	if err != nil && !errors.Is(err, lockprovider.ErrLost) {
		ret = math.MaxInt64 // not confirmed: it may end at any time from the call on
	}
	if errors.Is(err, lockprovider.ErrLost) {
		call = taken
	}
	h.note(id, step{token: l.Token(), ended: true}, call, ret)
}
