package admission

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// auditPage is about how many records one step of a scan returns.
const auditPage = 1000

// GateMark is what a reservation, a confirmation and a release cannot leave
// unchanged: two equal marks of an open gate say that nothing happened between
// them. Made for the audit, which reads three stores that have no common moment.
type GateMark struct {
	Epoch   int64  // 0: there is no gate
	State   string // open or closed (being rebuilt)
	Sale    State  // state of the sale, as an operator's last change reached the gate
	Version string // rises when units come back
	Stock   map[string]int64
	Pending int64 // length of the pending list
	Orders  int64 // records, released ones too
}

// Present says whether there is a gate at all, open or being rebuilt.
func (m GateMark) Present() bool { return m.Epoch > 0 }

// Ready says whether the gate is open under the epoch.
func (m GateMark) Ready(epoch int64) bool { return m.State == "open" && m.Epoch == epoch && epoch > 0 }

// Equal compares everything.
func (m GateMark) Equal(o GateMark) bool {
	return m.Epoch == o.Epoch && m.State == o.State && m.Version == o.Version &&
		m.Pending == o.Pending && m.Orders == o.Orders && maps.Equal(m.Stock, o.Stock)
}

// Mark reads the gate's mark in one step.
func (g *Gate) Mark(ctx context.Context, activity string) (GateMark, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var fields *redis.SliceCmd
	var stock *redis.MapStringStringCmd
	var pending, orders *redis.IntCmd
	_, err := g.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		fields = p.HMGet(ctx, g.key(activity, "gate"), "epoch", "state", "version", "sale")
		stock = p.HGetAll(ctx, g.key(activity, "stock"))
		pending = p.ZCard(ctx, g.key(activity, "pending"))
		orders = p.HLen(ctx, g.key(activity, "orders"))
		return nil
	})
	if err != nil {
		return GateMark{}, fmt.Errorf("read the mark of the gate of activity %s: %w", activity, err)
	}
	f := fields.Val()
	m := GateMark{State: text(f[1]), Version: text(f[2]), Sale: State(text(f[3])), Pending: pending.Val(), Orders: orders.Val(), Stock: map[string]int64{}}
	m.Epoch, _ = strconv.ParseInt(text(f[0]), 10, 64)
	for sku, units := range stock.Val() {
		n, err := strconv.ParseInt(units, 10, 64)
		if err != nil {
			return GateMark{}, fmt.Errorf("stock of %s/%s at the gate is %q: rebuild the gate", activity, sku, units)
		}
		m.Stock[sku] = n
	}
	return m, nil
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
		page.add(pairs[i], pairs[i+1])
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
	values, err := g.redis.HMGet(ctx, g.key(activity, "orders"), ids...).Result()
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
