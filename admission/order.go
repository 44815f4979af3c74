package admission

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// Status is where an order stands. The zero value is no status.
type Status string

// The statuses of an order. Accepted is the log's, all others are the ledger's.
const (
	Accepted       Status = "accepted"
	Held           Status = "held"
	PendingPayment Status = "pending_payment"
	Confirmed      Status = "confirmed"
	Paid           Status = "paid"
	Cancelled      Status = "cancelled"
	Expired        Status = "expired"
	Rejected       Status = "rejected"
)

// Live says whether an order of this status occupies its units in the ledger.
func (s Status) Live() bool {
	return s == PendingPayment || s == Confirmed || s == Paid
}

// The reasons of a rejection.
const (
	ReasonSoldOut = "sold-out"
	ReasonLimit   = "limit-reached"
	ReasonStale   = "stale"
	ReasonDropped = "dropped"
)

// Bounds of one batch: they keep a log message, a script run and a settlement
// transaction small enough to be retried as a whole.
const (
	MaxBatchOrders = 512
	MaxBatchBytes  = 256 << 10
	MaxQuantity    = 1_000_000
)

// messageVersion is the version of the log message that this code writes and reads.
const messageVersion = 1

// Order is one accepted order as the log carries it.
type Order struct {
	ID       string    `json:"id"`
	User     string    `json:"user"`
	SKU      string    `json:"sku"`
	Quantity int64     `json:"quantity"`
	Key      string    `json:"key,omitzero"`
	At       time.Time `json:"at"` // Redis TIME of the reservation, whole milliseconds
}

// Batch is one message of the order log: the orders that one run of the gate's
// script admitted, all of one activity. Epoch is that of the reservations and is
// copied unchanged by every retry, sweep, rebuild and replay.
type Batch struct {
	Version  int     `json:"v"`
	ID       string  `json:"batch"`
	Epoch    int64   `json:"epoch"`
	Activity string  `json:"activity"`
	Orders   []Order `json:"orders"`

	Replay *Replayed `json:"replay,omitzero"` // nil: the orders came from the gate

	bytes int // of what Add has added, at most
}

// Add adds an order unless that would pass the bounds of one message.
func (b *Batch) Add(o Order) bool {
	if n := len(b.Orders); n >= MaxBatchOrders || n > 0 && b.bytes+o.size() > MaxBatchBytes {
		return false
	}
	b.bytes += o.size()
	b.Orders = append(b.Orders, o)
	return true
}

// Replayed marks a batch whose orders a replay has appended again.
type Replayed struct {
	Run string `json:"run,omitzero"`
	// From is the lowest sequence number of the messages whose orders these are; 0:
	// they were not read in the log. A reader of both need not look at the copy.
	From uint64 `json:"from,omitzero"`
	// Held asks to decide the held orders among them now; without it they stay held.
	Held bool `json:"held,omitzero"`
}

// NewBatch returns an empty batch under a fresh id.
func NewBatch(activity string, epoch int64) Batch {
	return Batch{Version: messageVersion, ID: NewID(), Epoch: epoch, Activity: activity}
}

// DecodeBatch reads a log message. Fields it does not know are ignored; whatever
// could not be settled as it stands is an error.
func DecodeBatch(data []byte) (Batch, error) {
	var b Batch
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("decode log message: %w", err)
	}
	if b.Version != messageVersion {
		return b, fmt.Errorf("decode log message: version %d is not known to this release, which reads version %d", b.Version, messageVersion)
	}
	if !ValidName(b.Activity) || len(b.Orders) > MaxBatchOrders {
		return b, fmt.Errorf("decode log message: activity %q with %d orders is not a batch", b.Activity, len(b.Orders))
	}
	for _, o := range b.Orders {
		if err := o.Check(); err != nil {
			return b, fmt.Errorf("decode log message: order %q: %w", o.ID, err)
		}
	}
	return b, nil
}

// Check says what keeps the order from being one that a message may hold; nil: nothing.
func (o Order) Check() error {
	switch {
	case !ValidID(o.ID):
		return fmt.Errorf("the id is not a UUID")
	case !ValidUser(o.User):
		return fmt.Errorf("the user id is not 1 to 128 bytes of printable UTF-8")
	case !ValidName(o.SKU):
		return fmt.Errorf("the SKU is not a name")
	case o.Quantity < 1 || o.Quantity > MaxQuantity:
		return fmt.Errorf("the quantity %d is not between 1 and %d", o.Quantity, MaxQuantity)
	case o.Key != "" && !ValidKey(o.Key):
		return fmt.Errorf("the idempotency key is not 1 to 255 printable ASCII characters")
	}
	return nil
}

// size is an upper bound of what the order adds to a message, in bytes: JSON
// may write any byte of the free text as six.
func (o Order) size() int { return 160 + 6*(len(o.User)+len(o.Key)) + len(o.SKU) }

// NewID returns a fresh order or batch id: a UUID of version 7, so that ids rise
// with time and index pages stay warm.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// ValidName tells whether s may name an activity or a SKU: 1 to 64 letters, digits, _
// and -.
func ValidName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidID tells whether s is an order id in its one canonical spelling: a UUID in lower
// case.
func ValidID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		default:
			return false
		}
	}
	return true
}

// ValidUser tells whether s may be a user id. Ids are compared byte by byte.
func ValidUser(s string) bool {
	if len(s) < 1 || len(s) > 128 || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// ValidKey tells whether s may be an Idempotency-Key.
func ValidKey(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 255
}
