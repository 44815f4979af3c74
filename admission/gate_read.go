package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// GateView is what can be seen of a gate from outside.
type GateView struct {
	Epoch    int64  // 0: there is no gate
	State    string // open or closed (being rebuilt)
	Sale     State
	Stock    map[string]int64
	Versions map[string]int64 // of each SKU's total, as it was brought here
	Trusted  bool             // it was filled on the Redis that has it now
	Pending  int64            // orders the ledger has not decided
	Oldest   time.Time        // when the oldest of them was reserved; zero: none
}

// Behind says whether operators have changed totals in the ledger that this gate does
// not have yet.
func (v GateView) Behind(a Activity) bool {
	for _, s := range a.SKUs {
		if v.Versions[s.ID] < s.Version {
			return true
		}
	}
	return false
}

// Ready says whether the gate is open under the epoch, and to be believed.
func (v GateView) Ready(epoch int64) bool {
	return v.State == "open" && v.Epoch == epoch && epoch > 0 && v.Trusted
}

// View reads the gate of an activity at one moment.
func (g *Gate) View(ctx context.Context, activity string) (GateView, error) {
	reply, err := g.run(ctx, viewScript, g.keys(activity, "gate", "stock", "pending"), nil)
	if err != nil {
		return GateView{}, fmt.Errorf("read the gate of activity %s: %w", activity, err)
	}
	v := GateView{Stock: map[string]int64{}, Versions: map[string]int64{}}
	var oldest int64
	for i, number := range map[int]*int64{1: &v.Epoch, 5: &v.Pending, 6: &oldest} {
		if *number, err = strconv.ParseInt(text(reply[i]), 10, 64); err != nil {
			return GateView{}, fmt.Errorf("the gate of activity %s is damaged, rebuild it: %w", activity, err)
		}
	}
	v.State, v.Sale, v.Trusted = text(reply[2]), State(text(reply[3])), text(reply[4]) == "1"
	if oldest > 0 {
		v.Oldest = time.UnixMilli(oldest).UTC()
	}
	for i := 7; i+2 < len(reply); i += 3 {
		sku := text(reply[i])
		version, _, _ := strings.Cut(text(reply[i+2]), " ")
		var err1, err2 error
		v.Stock[sku], err1 = strconv.ParseInt(text(reply[i+1]), 10, 64)
		v.Versions[sku], err2 = strconv.ParseInt(version, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return GateView{}, fmt.Errorf("stock of %s/%s at the gate is damaged, rebuild the gate: %w", activity, sku, err)
		}
	}
	return v, nil
}

// Find looks an order up by activity and id. It is found before the ledger knows
// it, and as a mark after it was given back.
func (g *Gate) Find(ctx context.Context, activity, id string) (Reservation, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	record, err := g.redis.HGet(ctx, g.key(activity, "orders"), GateID(id)).Result()
	if err == redis.Nil {
		return Reservation{}, false, nil
	}
	if err != nil {
		return Reservation{}, false, fmt.Errorf("look order %s up at the gate: %w", id, err)
	}
	r, err := decodeReservation(id, record)
	return r, err == nil, err
}

// PendingOrders are reservations that the ledger has not decided, with the epoch
// under which they were made.
type PendingOrders struct {
	Epoch int64
	Open  bool // else the gate is closed, by a rebuild
	List  []Order
	Page  int
}

// Pending lists the oldest reservations that are still pending and were made
// before the given time of this Redis's clock (zero: all times): one page of at
// most MaxBatchOrders, after the first skip. A page may hold fewer, since it leaves
// out what was decided meanwhile; Page is its full length.
func (g *Gate) Pending(ctx context.Context, activity string, before time.Time, skip int64) (PendingOrders, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	upper := "+inf"
	if !before.IsZero() {
		upper = "(" + strconv.FormatInt(before.UnixMilli(), 10)
	}
	var fields *redis.SliceCmd
	var ids *redis.StringSliceCmd
	_, err := g.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		fields = p.HMGet(ctx, g.key(activity, "gate"), "filled", "state")
		ids = p.ZRangeByScore(ctx, g.key(activity, "pending"), &redis.ZRangeBy{Min: "-inf", Max: upper, Offset: skip, Count: MaxBatchOrders})
		return nil
	})
	if err != nil {
		return PendingOrders{}, fmt.Errorf("list pending orders of activity %s: %w", activity, err)
	}
	var p PendingOrders
	p.Epoch, _ = strconv.ParseInt(text(fields.Val()[0]), 10, 64)
	p.Open = text(fields.Val()[1]) == "open"
	p.Page = len(ids.Val())
	if p.Page == 0 {
		return p, nil
	}
	records, err := g.redis.HMGet(ctx, g.key(activity, "orders"), ids.Val()...).Result()
	if err != nil {
		return PendingOrders{}, fmt.Errorf("read pending orders of activity %s: %w", activity, err)
	}
	for i, id := range ids.Val() {
		r, err := decodeReservation(FromGateID(id), text(records[i]))
		if err != nil {
			return PendingOrders{}, err
		}
		// Decided between the two reads: no longer ours to push.
		if r.State == Pending {
			p.List = append(p.List, r.Order)
		}
	}
	return p, nil
}

// Charged lists the buyer's newest charged orders of a SKU, at most 32.
func (g *Gate) Charged(ctx context.Context, activity, sku, user string) ([]Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	entry, err := g.redis.HGet(ctx, g.key(activity, "buyers"), sku+" "+user).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list a buyer's orders of %s/%s at the gate: %w", activity, sku, err)
	}
	verdict, _ := readVerdict(Order{}, "limit "+entry)
	var found []Reservation
	for _, id := range verdict.Orders[1:] { // the first word counts the units
		r, ok, err := g.Find(ctx, activity, id)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, r)
		}
	}
	return found, nil
}

// Now is the clock that dates reservations and decides the window of a sale.
func (g *Gate) Now(ctx context.Context, activity string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	now, err := g.redis.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the gate's clock for activity %s: %w", activity, err)
	}
	return now.UTC(), nil
}

// Ping asks whether Redis answers.
func (g *Gate) Ping(ctx context.Context) error {
	if err := g.redis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ask Redis whether it answers: %w", err)
	}
	return nil
}
