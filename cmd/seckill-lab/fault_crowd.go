package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Pauses of a buyer who does not know yet, before asking again. Real clients wait longer (Retry-After); these
// are hard to live with on purpose.
const (
	askAgainMin = 100 * time.Millisecond
	askAgainMax = 500 * time.Millisecond
)

// buyers is a crowd whose members ask until they know: after no answer, or one that leaves the truth open, they
// ask again with the same key. Whoever knows may tap once more and has to be told the same.
type buyers struct {
	path, body []byte
	size       int
	random     *rand.Rand // of the engine's goroutine
	start      time.Time

	// Of the engine's goroutine.
	next    uint32 // the first who has not asked yet
	asking  map[int64]uint32
	again   retries
	waiting map[uint32]bool // in again
	enough  func()          // called when everybody knows

	mu       sync.Mutex
	admitted map[string]uint32 // order ids answered with 202, and to whom
	repeated map[string]uint32 // order ids answered with 200
	order    map[uint32]string // the order a buyer was told of first
	refused  map[uint32]string // the final refusal a buyer was told
	faults   []string          // answers that no buyer should get
	faulty   int
	kinds    map[string]int64

	accepted, known atomic.Int64
}

func newBuyers(activity, sku string, size int, seed uint64) *buyers {
	return &buyers{
		path: []byte("/v1/activities/" + activity + "/orders"), body: []byte(`{"sku":"` + sku + `","quantity":1}`),
		size: size, random: rand.New(rand.NewPCG(seed, 1)),
		asking: map[int64]uint32{}, waiting: map[uint32]bool{},
		admitted: map[string]uint32{}, repeated: map[string]uint32{},
		order: map[uint32]string{}, refused: map[uint32]string{}, kinds: map[string]int64{},
	}
}

// send runs the crowd through the load engine until everybody knows or ctx ends; the cause of that end is not an
// error, since what it left open is judged later.
func (b *buyers) send(ctx context.Context, target string, rate float64) (*loadResult, error) {
	ctx, b.enough = context.WithCancel(ctx)
	defer b.enough()
	b.start = time.Now()
	result, err := load(ctx, loadConfig{
		Target: "http://" + target, Requests: 1 << 40, Connections: 64,
		Pace: constantPace(rate), Timeout: 5 * time.Second, Answer: b.heard,
	}, b.fill)
	if err != nil {
		return nil, fmt.Errorf("send the buyers: %w", err)
	}
	return result, nil
}

// fill picks who asks: somebody whose pause is over, else the next newcomer, else whoever waits the longest, and
// when everybody has asked and none waits, somebody at random taps again.
func (b *buyers) fill(n int64, r *loadRequest) {
	buyer := b.pick(time.Since(b.start))
	b.asking[n] = buyer
	r.Path = append(r.Path[:0], b.path...)
	r.Body = append(r.Body[:0], b.body...)
	r.Buyer = appendBuyer(r.Buyer[:0], buyer)
	r.Key = r.Key[:0]
	if buyer%2 == 0 { // the others rely on the limit of one
		r.Key = append(append(r.Key, "tap-of-"...), r.Buyer...)
	}
}

func (b *buyers) pick(now time.Duration) uint32 {
	newcomers := int(b.next) < b.size
	switch {
	case len(b.again) > 0 && (b.again[0].at <= now || !newcomers):
		buyer := heap.Pop(&b.again).(retry).buyer
		delete(b.waiting, buyer)
		return buyer
	case newcomers:
		b.next++
		return b.next - 1
	}
	return uint32(b.random.IntN(b.size))
}

// heard files an answer.
func (b *buyers) heard(a *loadAnswer) {
	buyer := b.asking[a.N]
	delete(b.asking, a.N)
	b.mu.Lock()
	kind := a.Kind
	if a.Status == 0 {
		kind = "no answer"
	}
	b.kinds[kind]++
	final := b.file(buyer, a)
	knows := b.order[buyer] != "" || b.refused[buyer] != ""
	b.mu.Unlock()
	if !final && !knows && !b.waiting[buyer] {
		pause := askAgainMin + time.Duration(b.random.Int64N(int64(askAgainMax-askAgainMin)))
		b.waiting[buyer] = true
		heap.Push(&b.again, retry{a.Done + pause, buyer})
	}
	if int(b.known.Load()) == b.size && len(b.asking) == 0 {
		b.enough()
	}
}

// file says whether the answer tells the truth for good. b.mu is held.
func (b *buyers) file(buyer uint32, a *loadAnswer) bool {
	id := string(a.OrderID)
	switch a.Status {
	case 202, 200:
		if id == "" {
			b.fault("%s got %d without an order id", buyerName(buyer), a.Status)
			return false
		}
		b.placed(buyer, id, a.Status)
		return true
	case 409, 410:
		if a.Kind == "409 not-started" { // by a clock that is behind
			return false
		}
		if mine := b.order[buyer]; mine != "" {
			b.fault("%s has order %s and was told %q", buyerName(buyer), mine, a.Kind)
			return true
		}
		if b.refused[buyer] == "" {
			b.refused[buyer] = a.Kind
			b.known.Add(1)
		}
		return true
	case 0, 503, 429:
		return false
	}
	b.fault("%s got %s: %.200s", buyerName(buyer), a.Kind, a.Body)
	return false
}

func (b *buyers) placed(buyer uint32, id string, status int) {
	if other, ok := b.admitted[id]; ok && (status == 202 || other != buyer) {
		b.fault("order %s was given to %s and again, with %d, to %s", id, buyerName(other), status, buyerName(buyer))
		return
	}
	if status == 202 {
		b.admitted[id] = buyer
		b.accepted.Add(1)
	} else {
		b.repeated[id] = buyer
	}
	switch mine := b.order[buyer]; {
	case mine == "":
		b.order[buyer] = id
		if b.refused[buyer] == "" { // a unit that came back may have been had later
			b.known.Add(1)
		}
	case mine != id:
		b.fault("%s was told of order %s and then, with %d, of %s", buyerName(buyer), mine, status, id)
	}
}

func (b *buyers) fault(format string, args ...any) {
	b.faulty++
	if len(b.faults) < faultsShown {
		b.faults = append(b.faults, fmt.Sprintf(format, args...))
	}
}

// admittedIDs is a copy of the order ids answered with 202 so far.
func (b *buyers) admittedIDs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.admitted))
	for id := range b.admitted {
		ids = append(ids, id)
	}
	return ids
}

// reach waits until more than n orders were answered with 202, or says why that cannot be waited for.
func (b *buyers) reach(ctx context.Context, n int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for b.accepted.Load() < n {
		if int(b.known.Load()) == b.size {
			return errCrowdOver
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %d orders are accepted, %d are: %w", n, b.accepted.Load(), context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

var errCrowdOver = errors.New("every buyer knows already")

// retry is a buyer who asks again at a time, counted from the start of the load.
type retry struct {
	at    time.Duration
	buyer uint32
}

// retries is a heap, the earliest first.
type retries []retry

func (r retries) Len() int           { return len(r) }
func (r retries) Less(i, j int) bool { return r[i].at < r[j].at }
func (r retries) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *retries) Push(x any)        { *r = append(*r, x.(retry)) }
func (r *retries) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}
