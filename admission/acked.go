package admission

import "sync"

// mostAcked bounds how many orders a node remembers as appended.
const mostAcked = 1 << 16

// acked remembers which orders this node has seen acknowledged by the log, so that
// a buyer who asks again does not cause another append. It forgets the oldest half
// when full; what it does not know is appended again, which is always right.
type acked struct {
	mu          sync.Mutex
	young, aged map[string]struct{}
}

func (a *acked) add(orders []Order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.young == nil || len(a.young) >= mostAcked/2 {
		a.young, a.aged = make(map[string]struct{}), a.young
	}
	for _, o := range orders {
		a.young[o.ID] = struct{}{}
	}
}

func (a *acked) has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, young := a.young[id]
	_, aged := a.aged[id]
	return young || aged
}
