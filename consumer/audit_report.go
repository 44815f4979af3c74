package consumer

import "fmt"

// The laws of an audit. What one store says can be judged at any moment; what gate
// and ledger say of each other only at rest.
const (
	// LawOversold: the live orders of a SKU are more units than its total.
	LawOversold = "oversold"
	// LawLimit: a buyer has more live units of a SKU than the limit.
	LawLimit = "limit"
	// LawDuplicate: an order id has two rows, or one Idempotency-Key of a buyer two
	// orders (those that were never accepted, rejected as stale, aside).
	LawDuplicate = "duplicate"
	// LawLost: the log has an order that the settled position has passed, and it has
	// neither a row nor a pending reservation.
	LawLost = "lost"
	// LawNegative: a stock below 0, in the ledger or at the gate.
	LawNegative = "negative"
	// LawStranded: the equation total = live + gate stock + undecided + release due
	// is wrong, in either direction: units that nobody can buy, or that the gate
	// would sell again. At rest, with an open gate.
	LawStranded = "stranded"
	// LawStatus: what the stores say of one order or SKU cannot all be true. A status
	// or reason outside the list; a SKU whose total is not stock + live; a row that
	// is not what the log says; and at rest, with an open gate: an order that is
	// charged at the gate but neither live nor held, the reverse, or one that differs
	// in buyer, SKU or quantity. A forgotten release and a forgotten reservation
	// balance in LawStranded, and show here.
	LawStatus = "status"
)

// Report is the result of an audit.
type Report struct {
	OK         bool              `json:"ok"`
	AtRest     bool              `json:"at_rest" doc:"no backlog, nothing undecided but held orders, and nothing moved during the audit"`
	Activities []AuditedActivity `json:"activities"`
	Violations []Violation       `json:"violations"`
	LeftOff    int               `json:"violations_left_off,omitempty" doc:"violations found beyond the longest list"`
	Log        AuditedLog        `json:"log"`
}

// AuditedActivity is the books of one activity.
type AuditedActivity struct {
	Activity string       `json:"activity"`
	SKUs     []AuditedSKU `json:"skus"`
}

// AuditedSKU is the books of one SKU, in units.
type AuditedSKU struct {
	SKU        string `json:"sku"`
	Total      int64  `json:"total"`
	Stock      int64  `json:"stock" doc:"of the ledger: units not in a live order"`
	Live       int64  `json:"live" doc:"sum of the live orders"`
	GateStock  *int64 `json:"gate_stock" doc:"null without a gate"`
	Undecided  int64  `json:"undecided" doc:"reserved at the gate and not decided, and held"`
	ReleaseDue int64  `json:"release_due" doc:"dead in the ledger, not yet given back at the gate"`
	Epoch      int64  `json:"epoch"`
}

// AuditedLog is what the audit read of the order log.
type AuditedLog struct {
	LastSeq uint64 `json:"last_seq"`
	Orders  uint64 `json:"orders" doc:"orders in the log, those appended twice counted twice"`
	Backlog uint64 `json:"backlog" doc:"orders after the settled position"`
	Dead    uint64 `json:"dead" doc:"messages in the dead-letter stream"`
}

// Violation is one law that does not hold for one thing.
type Violation struct {
	Law      string `json:"law"`
	Activity string `json:"activity"`
	SKU      string `json:"sku"`
	Order    string `json:"order"`
	Detail   string `json:"detail"`

	gate bool // of the gate, which a rebuild makes anew; else of ledger or log
}

// WrongGate says why the gate of an activity has to be rebuilt, as far as an audit
// can tell; empty: it need not be, or must not be. It must not be while the books of
// ledger and log are broken themselves: the gate is filled from them, and an order
// that has to be settled again would be stale for the next one.
func (r Report) WrongGate(activity string) string {
	why, more := "", 0
	for _, v := range r.Violations {
		switch {
		case v.Activity != activity || v.Law == LawLimit:
		case !v.gate:
			return ""
		case why == "":
			why = v.Detail
		default:
			more++
		}
	}
	if more > 0 {
		why += fmt.Sprintf(" (and %d more)", more)
	}
	return why
}
