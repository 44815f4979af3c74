package admission

import (
	"context"
	"errors"
)

// Errors of a Ledger that callers tell apart.
var (
	ErrNoActivity = errors.New("no such activity")
	ErrNoOrder    = errors.New("no such order")
	ErrSuperseded = errors.New("a newer rebuild has begun")

	ErrNotCancellable = errors.New("the order cannot be cancelled any more")
	ErrNotPayable     = errors.New("the order cannot be paid")
	ErrAmount         = errors.New("the amount is not that of the order")
)

// Ledger is what admission must ask the decider. It is declared here because the
// ledger itself stands downstream of this package.
type Ledger interface {
	// Activity reads an activity with its SKUs; ErrNoActivity.
	Activity(ctx context.Context, id string) (Activity, error)
	// Activities lists the ids of all activities that have had a gate.
	Activities(ctx context.Context) ([]string, error)
	// Orders reads the decided ones of the given orders, by id.
	Orders(ctx context.Context, ids []string) (map[string]Row, error)
	// OrdersOf lists a buyer's decided orders, newest first, below the id before
	// (empty: from the newest).
	OrdersOf(ctx context.Context, activity, user, before string, limit int) ([]Row, error)
	// Cancel makes an order dead; ErrNoOrder, ErrNotCancellable.
	Cancel(ctx context.Context, c Cancellation) (CancelResult, error)
	// Pay takes a payment in, once; ErrNoOrder, ErrNotPayable, ErrAmount.
	Pay(ctx context.Context, p Payment) (PaymentResult, error)
	// FinishLate ends a payment that is placing by what became of its new order: paid
	// if that is live, a refund if it is dead. An order that the ledger has no row of is
	// left to come, unless it was refused for good, for the reason named.
	FinishLate(ctx context.Context, payment, refused string) (PaymentResult, error)
	// Settled is the log sequence up to which a partition is decided.
	Settled(ctx context.Context, partition int) (uint64, error)
	// NextEpoch mints the number of a new rebuild, greatest(last + 1, now in ms), if
	// last is still the newest; else somebody has just begun: ErrSuperseded.
	NextEpoch(ctx context.Context, activity string, last int64) (int64, error)
	// Snapshot makes n the epoch of the activity and reads, in the same
	// transaction, what the gate must be filled with; ErrSuperseded unless n is the
	// newest number.
	Snapshot(ctx context.Context, activity string, n int64) (Snapshot, error)
}

// Cancellation asks the ledger to make an order dead.
type Cancellation struct {
	ID             string
	Activity, User string // of the buyer who asks, whose order it must be; empty: an operator asks
	Refund         bool   // the money of a paid one has to go back

	// InFlight is the order as the gate has it, if the ledger has no row of it. Its
	// row then becomes a tombstone, which the settlement respects.
	InFlight  *Row
	Partition int // of the log, of an order in flight
}

// CancelResult is what a cancellation leaves.
type CancelResult struct {
	Row   Row
	Was   Status // what it was before; cancelled: this was a repeat
	Epoch int64  // of the gate that is to be told; 0: none
}

// Snapshot is the ledger's view of an activity at the moment its epoch began.
type Snapshot struct {
	Activity Activity

	Rows []Row // live and held ones, and dead ones under an idempotency key
}
