package admission

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// rememberedKeys bounds how many buyers, and how many addresses, a limit remembers,
// some 150 bytes each. Past it, who has not asked for longest is forgotten, and begins
// anew with a whole burst.
const rememberedKeys = 100_000

// Rate is how often somebody may ask: once in Every, and Burst times at once by those
// who have not asked for a while. A zero Every limits nobody; a Burst below 1 is 1.
type Rate struct {
	Every time.Duration
	Burst int
}

// limiter limits many by the generic cell rate algorithm (ITU-T I.371): of each it
// remembers one instant, when the last request would have come at an even pace. It is
// a token bucket without a bucket. Safe for concurrent use.
type limiter struct {
	rate Rate

	mu  sync.Mutex
	due *simplelru.LRU[string, time.Time]
}

// newLimiter returns nil for a rate that limits nobody.
func newLimiter(r Rate, most int) *limiter {
	if r.Every <= 0 {
		return nil
	}
	r.Burst = max(r.Burst, 1)
	due, err := simplelru.NewLRU[string, time.Time](most, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &limiter{rate: r, due: due}
}

// take asks for one request of a key and returns how long it has to wait; 0: it may
// go on. Whoever is refused loses nothing by it. A key of weight n has n times the
// rate and the burst.
func (l *limiter) take(key string, weight int, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	every := l.rate.Every / time.Duration(weight)
	l.mu.Lock()
	defer l.mu.Unlock()
	due, _ := l.due.Get(key)
	if due.Before(now) {
		due = now
	}
	// Of a burst, all but the last request may come ahead of their time.
	ahead := every * time.Duration(l.rate.Burst*weight-1)
	if early := due.Sub(now) - ahead; early > 0 {
		return early
	}
	l.due.Add(key, due.Add(every))
	return 0
}
