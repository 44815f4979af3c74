package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// heardOrder is an order id that a buyer was given.
type heardOrder struct {
	id    uuid.UUID
	buyer uint32
}

// heard keeps what the audit must know of the answers, 20 bytes an order, and their course in time. It belongs to
// the engine's goroutine until the load has ended; the counters can be read meanwhile.
type heard struct {
	placed       []heardOrder  // answered with 202
	repeated     []heardOrder  // answered with 200
	faults       []string      // answers that break the contract, the first few
	faulty       int           // all of them
	lastAdmitted time.Duration // from the start of the load
	course       *course

	counters
}

func newHeard() *heard { return &heard{course: newCourse(courseWidth)} }

// hear is told of each answer.
func (h *heard) hear(a *loadAnswer) {
	h.answers.Add(1)
	h.course.answered(a)
	switch a.Status {
	case 202:
		h.accepted.Add(1)
		h.lastAdmitted = a.Done
		h.keep(&h.placed, a)
	case 200:
		h.keep(&h.repeated, a)
	case 0, 503:
	default:
		h.refused.Add(1)
	}
}

func (h *heard) keep(list *[]heardOrder, a *loadAnswer) {
	id, err := uuid.ParseBytes(a.OrderID)
	if err != nil {
		h.fault("request %d of %s: %d with the order id %q", a.N, a.Request.Buyer, a.Status, a.OrderID)
		return
	}
	*list = append(*list, heardOrder{id, buyerNumber(a.Request.Buyer)})
}

func (h *heard) fault(format string, args ...any) {
	h.faulty++
	if len(h.faults) < faultsShown {
		h.faults = append(h.faults, fmt.Sprintf(format, args...))
	}
}

// settle sorts what was heard and finds what cannot be true by itself: an id that was new to two requests, or
// that two buyers have.
func (h *heard) settle() {
	for _, list := range [][]heardOrder{h.placed, h.repeated} {
		slices.SortFunc(list, func(a, b heardOrder) int { return bytes.Compare(a.id[:], b.id[:]) })
	}
	for i := 1; i < len(h.placed); i++ {
		if h.placed[i].id == h.placed[i-1].id {
			h.fault("order %s was answered with 202 to %s and to %s", h.placed[i].id,
				buyerName(h.placed[i-1].buyer), buyerName(h.placed[i].buyer))
		}
	}
	for i := 1; i < len(h.repeated); i++ {
		if a, b := h.repeated[i-1], h.repeated[i]; a.id == b.id && a.buyer != b.buyer {
			h.fault("order %s was shown to %s and to %s", a.id, buyerName(a.buyer), buyerName(b.buyer))
		}
	}
}
