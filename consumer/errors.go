package consumer

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// trouble is what an error of the ledger means for the messages in hand.
type trouble uint8

const (
	// away: the ledger cannot work now, or the outcome is unknown. The same
	// messages are tried again; nothing is fetched, no delivery is burnt.
	away trouble = iota
	// contention: another transaction was in the way. Tried again at once.
	contention
	// poison: something in the data cannot be settled as it stands. The batch is
	// halved until the order is found.
	poison
	// defect: this release and the schema do not fit. Tried again slowly, and loudly:
	// an operator has to act.
	defect
)

// classify is the one place that knows SQLSTATEs.
func classify(err error) trouble {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return away // connection lost, deadline over, COMMIT unanswered
	}
	switch pg.Code {
	case "40001", "40P01", "55P03", // serialization, deadlock, lock not available
		"26000", "42P05", "0A000": // a prepared statement that went with its plan
		return contention
	case "23514": // a CHECK: stock below 0 is the books' fault, not an order's
		if pg.TableName == "skus" {
			return defect
		}
		return poison
	case "P0001": // raised by a rule of the operator's own
		return poison
	}
	switch pg.Code[:2] {
	case "22", "23": // data exception, integrity constraint
		return poison
	case "42": // syntax or access: wrong schema, missing right
		return defect
	}
	return away
}
