package admission

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// soldOutEvery is the time between two looks at the gate.
	soldOutEvery = 100 * time.Millisecond
	// soldOutAge is how long a look counts, from the moment it was sent: units that
	// come back, a pause, a close or the end of a sale are noticed within it.
	soldOutAge = 200 * time.Millisecond
	// soldOutIdle is how long nobody has to ask until a memory is given up.
	soldOutIdle = 10 * time.Second
	// soldOutRest keeps the share of time that is spent on reading buyers below a
	// tenth, however often a memory has to be given up.
	soldOutRest = 9
	// soldOutReading bounds the reading of one set of buyers.
	soldOutReading = 30 * time.Second
	// mostRemembered bounds the buyers that a node remembers, of all its activities
	// together: 16 MB, and as much again while they are read. What does not fit asks
	// the gate.
	mostRemembered = 1 << 21
)

// soldOut is what a node remembers of one activity once the gate has said "sold out":
// which SKUs have nothing left, and who has an order, live or dead. Who has none can
// only be told "sold out", which then costs no call; everybody else asks the gate.
//
// The gate is looked at before the buyers are read, and again every soldOutEvery. The
// memory holds only while each look shows the same: epoch, version, what is sold out,
// and that buyers are admitted. The gate's version rises whenever units come back, so
// while it is the same, nobody can have got an order of what was sold out at the first
// look: the set is complete. Any difference, or a look that fails, ends it.
//
// At most one goroutine an activity reads and looks, of the service's; it ends with the
// memory. The zero value remembers nothing. Safe for concurrent use.
type soldOut struct {
	now   atomic.Pointer[remembered]
	asked atomic.Bool // since the reader has looked

	mu      sync.Mutex
	running bool
	again   time.Time // not before is the set read anew
}

// remembered is one state of the memory; it is not changed but replaced.
type remembered struct {
	look   soldOutLook
	buyers []uint64  // hashes of all who have an order, sorted
	at     time.Time // when the newest look was sent; zero: the buyers are being read

	answers map[string]*Problem // of each SKU that is sold out; they are not changed
}

// buyerSeed makes the hashes of this process: a buyer cannot choose to be mistaken for
// another, and who is mistaken only asks the gate.
var buyerSeed = maphash.MakeSeed()

// refuses is the answer if it can only be "sold out"; nil: the gate answers.
func (m *soldOut) refuses(a Ask) *Problem {
	r := m.now.Load()
	if r == nil || time.Since(r.at) > soldOutAge {
		return nil
	}
	limit, out := r.look.limits[a.SKU]
	// The limit is told before the stock. And while anything is for sale, a key may have
	// got an order of another SKU since the buyers were read.
	if !out || a.Quantity > limit || a.Key != "" && !r.look.all {
		return nil
	}
	if !m.asked.Load() {
		m.asked.Store(true)
	}
	if _, has := slices.BinarySearch(r.buyers, maphash.String(buyerSeed, a.User)); has {
		return nil
	}
	return r.answers[a.SKU]
}

// remember takes a verdict of the gate to the memory: "sold out" begins one, and a
// reservation of what it holds for sold out ends it before the buyer is answered.
func (l *lane) remember(v Verdict, sku string) {
	m := &l.memory
	switch v.Kind {
	case VerdictReserved:
		for r := m.now.Load(); r != nil && r.look.has(sku); r = m.now.Load() {
			m.now.CompareAndSwap(r, nil)
		}
	case VerdictSoldOut:
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.running && !time.Now().Before(m.again) {
			m.running = true
			l.service.work.Go(l.readSoldOut)
		}
	}
}
