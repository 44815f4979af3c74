package admission

import (
	"time"
)

// State is the state of an activity as its operator set it.
type State string

// The states of an activity. Closed is final: ids are not reused.
const (
	Draft  State = "draft"
	Open   State = "open"
	Paused State = "paused"
	Closed State = "closed"
)

// Activity is one sale as the ledger has it.
type Activity struct {
	ID            string
	Title         string
	State         State
	StartsAt      time.Time // zero: from the moment it is opened
	EndsAt        time.Time // zero: until it is closed
	PaymentWindow time.Duration
	Epoch         int64     // number of the gate's present life; 0: it never had one
	LastEpoch     int64     // newest epoch handed out, of a rebuild that may be under way
	Revision      int64     // rises with every change of state or window
	ChangedAt     time.Time // by an operator
	Suspect       string    // why the gate cannot be right; empty: it may be
	Taking        bool      // an operator takes units away, which the next rebuild does
	SKUs          []SKU     // in order of their ids
}

// SKU is what an activity sells, as the ledger has it. Stock is what is not in a
// live order: Total = Stock + Live.
type SKU struct {
	ID           string
	Total        int64
	Stock        int64
	LimitPerUser int64
	Price        int64 // of one unit, in the smallest unit of money
	Version      int64 // rises with every change of Total
}

// Live is the number of units in live orders.
func (s SKU) Live() int64 { return s.Total - s.Stock }

func (a Activity) sku(id string) (SKU, bool) {
	for _, s := range a.SKUs {
		if s.ID == id {
			return s, true
		}
	}
	return SKU{}, false
}

// Row is one order as the ledger has decided it.
type Row struct {
	ID, Activity, SKU, User, Key string
	Quantity, Amount             int64
	Status                       Status
	Reason                       string
	CreatedAt                    time.Time
	DecidedAt, PayBefore         time.Time // zero: not yet, never
	Refund                       string    // RefundDue, or empty
	ReplacedBy                   string    // id of the order that its late payment bought; empty: none
}

// RefundDue says of an order that its money has to go back.
const RefundDue = "due"
