package main

import (
	"fmt"
	"slices"
	"strconv"
)

// told is what the buyers were told, as far as the laws go by it.
type told struct {
	admitted, repeated map[string]uint32
	faults             []string
	faulty             int
	notSold            bool // somebody was told that nothing is left
	rejectionAllowed   bool // Redis was rolled back without a sign
	eventsLost         bool // with the stream that had them
}

// finding is what the laws say about one reading of the books.
type finding struct {
	live, rejected int64 // rejected: of the orders answered with 202
	unrest         []string
	violations     []string // of laws that hold at any moment
	more           int
}

func (v *finding) violation(format string, args ...any) {
	if len(v.violations) >= faultsShown {
		v.more++
		return
	}
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

func (v *finding) restless(format string, args ...any) {
	if len(v.unrest) < faultsShown {
		v.unrest = append(v.unrest, fmt.Sprintf(format, args...))
	}
}

// judge is the closing laws, the same after every fault. Those that wait for something (a decision, a gate) are
// unrest, and violations only once the time for rest is over.
func judge(b *books, t *told) *finding {
	v := &finding{}
	rows := make(map[string]bookedOrder, len(b.orders))
	units := map[string]int64{}
	held := int64(0)
	for _, o := range b.orders {
		if _, twice := rows[o.id]; twice {
			v.violation("decided twice: order %s has two rows", o.id)
		}
		rows[o.id] = o
		switch {
		case isLive(o.status):
			v.live += o.quantity
			units[o.user] += o.quantity
		case o.status == "held":
			held++
		}
	}
	v.judgeUnits(b, units)
	v.judgeTold(rows, t)
	v.judgeGate(b, rows, units)
	v.judgeEvents(b, rows, t)
	if held > 0 {
		v.restless("%d orders are held: nothing here may need an operator", held)
	}
	if b.releaseDue > 0 {
		v.restless("%d orders have units to be given back", b.releaseDue)
	}
	return v
}

func (v *finding) judgeUnits(b *books, units map[string]int64) {
	if v.live > b.total {
		v.violation("oversold: %d units in live orders, %d to sell", v.live, b.total)
	}
	if b.stock < 0 || b.total != b.stock+v.live {
		v.violation("ledger: total %d is not stock %d plus live %d", b.total, b.stock, v.live)
	}
	for user, n := range units {
		if n > b.limit {
			v.violation("limit: %s has %d units, the limit is %d", user, n, b.limit)
		}
	}
}

func (v *finding) judgeTold(rows map[string]bookedOrder, t *told) {
	for id, buyer := range t.admitted {
		row, ok := rows[id]
		switch {
		case !ok:
			v.restless("lost: %s got 202 for order %s, and the ledger has no decision", buyerName(buyer), id)
		case row.user != buyerName(buyer):
			v.violation("order %s was given to %s, and the ledger has it for %s", id, buyerName(buyer), row.user)
		case row.status == "held":
			v.restless("undecided: order %s, answered with 202, is held", id)
		case !isLive(row.status):
			if v.rejected++; !t.rejectionAllowed {
				v.violation("order %s of %s was answered with 202 and is %s", id, buyerName(buyer), row.status)
			}
		}
	}
	for id, buyer := range t.repeated {
		if row, ok := rows[id]; !ok {
			v.restless("lost: %s got 200 for order %s, and the ledger has no decision", buyerName(buyer), id)
		} else if row.user != buyerName(buyer) {
			v.violation("order %s was shown to %s, and the ledger has it for %s", id, buyerName(buyer), row.user)
		}
	}
	if !t.rejectionAllowed { // else a forgotten order is found again under another id
		for _, fault := range t.faults {
			v.violation("answer: %s", fault)
		}
		v.more += t.faulty - len(t.faults)
	}
}

// judgeGate compares the gate with the ledger, order by order and buyer by buyer.
func (v *finding) judgeGate(b *books, rows map[string]bookedOrder, units map[string]int64) {
	switch {
	case len(b.gate) == 0:
		v.restless("there is no gate")
		return
	case b.gate["state"] != "open":
		v.restless("the gate is %s", b.gate["state"])
		return
	case b.gate["epoch"] != strconv.FormatInt(b.epoch, 10):
		v.restless("the gate is of epoch %s, the ledger of %d", b.gate["epoch"], b.epoch)
	}
	if b.pending > 0 {
		v.restless("%d orders are pending in the gate", b.pending)
	}
	if b.gateStock != b.stock {
		v.restless("stranded: the gate would sell %d more, the ledger has %d", b.gateStock, b.stock)
	}
	for id, state := range b.records {
		switch row, ok := rows[id]; {
		case state == "p":
			v.restless("order %s is pending in the gate", id)
		case state == "c" && (!ok || !isLive(row.status)):
			v.restless("the gate has charged order %s, which is not live in the ledger (%q)", id, row.status)
		}
	}
	for id, row := range rows {
		if isLive(row.status) && b.records[id] != "c" {
			v.restless("order %s is live in the ledger, and the gate has not charged it (%q)", id, b.records[id])
		}
	}
	for user, n := range units {
		if b.gateBuyers[user] != n {
			v.restless("%s has %d units in the ledger and %d in the gate", user, n, b.gateBuyers[user])
		}
	}
	for user, n := range b.gateBuyers {
		if units[user] == 0 {
			v.restless("%s has no unit in the ledger and %d in the gate", user, n)
		}
	}
}

func isLive(status string) bool { return slices.Contains(liveStatuses, status) }
