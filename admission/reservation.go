package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ReservationState is what has become of a reservation, as the gate knows it.
type ReservationState byte

// A reservation is charged, that is, it occupies its units at the gate, while it
// is pending (the ledger has not decided) or confirmed (the order is live). A
// released one stays as a mark until the next rebuild.
const (
	Pending   ReservationState = 'p'
	Charged   ReservationState = 'c'
	Released  ReservationState = 'r'
	noReserve ReservationState = 0
)

// Reservation is the gate's record of one order.
type Reservation struct {
	Order
	State ReservationState
}

// Status is the order's status as the gate last knew it; empty for a released
// one, of which only the ledger knows how it ended.
func (r Reservation) Status() Status {
	switch r.State {
	case Pending:
		return Accepted
	case Charged:
		return Confirmed
	}
	return ""
}

// encode writes the record as the scripts keep it:
//
//	state quantity at sku len(user) user key
//
// separated by single spaces but for user and key, which may contain anything
// and follow each other.
func (r Reservation) encode() string {
	return fmt.Sprintf("%c %d %d %s %d %s%s", r.State, r.Quantity, r.At.UnixMilli(), r.SKU, len(r.User), r.User, r.Key)
}

func decodeReservation(id, record string) (Reservation, error) {
	f := strings.SplitN(record, " ", 6)
	if len(f) != 6 || len(f[0]) != 1 {
		return Reservation{}, fmt.Errorf("reservation %s at the gate is damaged: rebuild the gate", id)
	}
	quantity, err1 := strconv.ParseInt(f[1], 10, 64)
	at, err2 := strconv.ParseInt(f[2], 10, 64)
	n, err3 := strconv.Atoi(f[4])
	if err1 != nil || err2 != nil || err3 != nil || n < 0 || n > len(f[5]) {
		return Reservation{}, fmt.Errorf("reservation %s at the gate is damaged: rebuild the gate", id)
	}
	return Reservation{
		Order: Order{
			ID: id, User: f[5][:n], SKU: f[3], Quantity: quantity, Key: f[5][n:],
			At: time.UnixMilli(at).UTC(),
		},
		State: ReservationState(f[0][0]),
	}, nil
}
