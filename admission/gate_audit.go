package admission

import (
	"context"
	"fmt"
	"maps"

	"github.com/redis/go-redis/v9"
)

// auditPage is about how many records one step of a scan returns.
const auditPage = 1000

// GateMark is what a reservation, a confirmation and a release cannot leave
// unchanged: two equal marks of an open gate say that nothing happened between
// them. Made for the audit, which reads three stores that have no common moment.
type GateMark struct {
	GateView
	Version string // rises when units come back
	Orders  int64  // records, released ones too
}

// Present says whether there is a gate at all, open or being rebuilt.
func (m GateMark) Present() bool { return m.Epoch > 0 }

// Equal compares everything.
func (m GateMark) Equal(o GateMark) bool {
	return m.Epoch == o.Epoch && m.State == o.State && m.Sale == o.Sale && m.Trusted == o.Trusted &&
		m.Version == o.Version && m.Pending == o.Pending && m.Orders == o.Orders && maps.Equal(m.Stock, o.Stock) && maps.Equal(m.Versions, o.Versions)
}

// Mark reads the gate's mark, in two steps: what is equal in two marks has not
// changed between the end of the first and the beginning of the second.
func (g *Gate) Mark(ctx context.Context, activity string) (GateMark, error) {
	view, err := g.View(ctx, activity)
	if err != nil {
		return GateMark{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var fields *redis.SliceCmd
	var orders *redis.IntCmd
	_, err = g.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		fields = p.HMGet(ctx, g.key(activity, "gate"), "version")
		orders = p.HLen(ctx, g.key(activity, "orders"))
		return nil
	})
	if err != nil {
		return GateMark{}, fmt.Errorf("read the mark of the gate of activity %s: %w", activity, err)
	}
	return GateMark{GateView: view, Version: text(fields.Val()[0]), Orders: orders.Val()}, nil
}

// Records are reservations of one gate, with the ids of those that cannot be read.
type Records struct {
	List    []Reservation
	Damaged []string
}

func (r *Records) add(id, record string) {
	reservation, err := decodeReservation(id, record)
	if err != nil {
		r.Damaged = append(r.Damaged, id)
		return
	}
	r.List = append(r.List, reservation)
}

// Records reads one page of all records of a gate, and the cursor of the next; 0
// begins, and 0 comes back at the end. A record that is there all the time is
// returned at least once; repeats are possible.
func (g *Gate) Records(ctx context.Context, activity string, cursor uint64) (Records, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var page Records
	pairs, next, err := g.redis.HScan(ctx, g.key(activity, "orders"), cursor, "*", auditPage).Result()
	if err != nil {
		return page, 0, fmt.Errorf("scan the records of the gate of activity %s: %w", activity, err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		page.add(FromGateID(pairs[i]), pairs[i+1])
	}
	return page, next, nil
}

// RecordsOf reads the records of the given orders that the gate has.
func (g *Gate) RecordsOf(ctx context.Context, activity string, ids []string) (map[string]Reservation, error) {
	found := make(map[string]Reservation, len(ids))
	for len(ids) > 0 {
		part := ids[:min(len(ids), auditPage)]
		ids = ids[len(part):]
		page, err := g.recordsOf(ctx, activity, part)
		if err != nil {
			return nil, err
		}
		for _, r := range page.List {
			found[r.ID] = r
		}
	}
	return found, nil
}

func (g *Gate) recordsOf(ctx context.Context, activity string, ids []string) (Records, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var page Records
	fields := make([]string, len(ids))
	for i, id := range ids {
		fields[i] = GateID(id)
	}
	values, err := g.redis.HMGet(ctx, g.key(activity, "orders"), fields...).Result()
	if err != nil {
		return page, fmt.Errorf("read %d records of the gate of activity %s: %w", len(ids), activity, err)
	}
	for i, id := range ids {
		if record := text(values[i]); record != "" {
			page.add(id, record)
		}
	}
	return page, nil
}
