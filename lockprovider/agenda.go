package lockprovider

import (
	"container/heap"
	"time"
)

// An entry is one thing to do at a time of the monotonic clock: renew a session,
// or look whether a session or a hold has passed its deadline.
type entry struct {
	at time.Duration
	of any // *session or *hold
	i  int // place in the heap + 1; 0: not in a heap
}

// An agenda is a heap of entries, the earliest first.
type agenda []*entry

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].i, a[j].i = i+1, j+1
}

// Push and Pop are for container/heap.
func (a *agenda) Push(x any) {
	e := x.(*entry)
	*a = append(*a, e)
	e.i = len(*a)
}

// Pop is for container/heap.
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	e.i = 0
	return e
}

// set puts e at the given time, wherever it was.
func (a *agenda) set(e *entry, at time.Duration) {
	e.at = at
	if e.i == 0 {
		heap.Push(a, e)
		return
	}
	heap.Fix(a, e.i-1)
}

func (a *agenda) drop(e *entry) {
	if e.i != 0 {
		heap.Remove(a, e.i-1)
	}
}

// next is the time of the earliest entry.
func (a agenda) next() (time.Duration, bool) {
	if len(a) == 0 {
		return 0, false
	}
	return a[0].at, true
}

// due takes the earliest entry out if its time has come.
func (a *agenda) due(by time.Duration) *entry {
	if len(*a) == 0 || (*a)[0].at > by {
		return nil
	}
	return heap.Pop(a).(*entry)
}
