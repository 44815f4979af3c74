package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The size of a sale under a fault: large enough that the fault comes in its middle, and more buyers than units.
const (
	faultUnits  = 3000
	faultBuyers = 3200
	faultRate   = 1500 // requests/s
	warmUp      = 300  // orders accepted before anything happens
	soldOutAt   = 1000 // units of a sale that is sold out when the fault strikes

	// leastInFlight is how many orders must have been answered with 202 and not yet be decided when the fault
	// strikes; a scenario that cannot show them does not count.
	leastInFlight = 500
	faultStage    = 60 * time.Second // for each step before the fault
)

// outcome is what came of one scenario.
type outcome struct {
	scenario scenario
	lock     string
	seed     uint64
	round    int
	about    string
	proof    string
	inFlight int
	admitted int
	units    int64
	verdict  *verdict
	note     string
	err      error // the scenario could not be run or does not count
	evidence string
	took     time.Duration
}

func (o *outcome) failed() bool { return o.err != nil || !o.verdict.clean() }

// schedule is the dice of one scenario: the same seed, name, lock and round give the same throws.
func schedule(seed uint64, name, lock string, round int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, name, "/", lock, "/", round)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// sale runs one scenario on a field that is ready: crowd, fault, healing, rest, laws.
func (f *field) sale(ctx context.Context, o *outcome, fault fault, dice *rand.Rand) (*buyers, error) {
	crowd := newBuyers(saleActivity, saleSKUName, faultBuyers, dice.Uint64())
	units := int64(faultUnits)
	if o.scenario.soldOut {
		units = soldOutAt
	}
	if err := f.api().openSale(ctx, saleActivity, "Sale with a fault", saleSKUName, units); err != nil {
		return crowd, err
	}
	var hold *settlementHold
	if o.scenario.soldOut { // nothing is decided before the last unit is taken
		var err error
		if hold, err = f.holdSettlement(ctx, saleActivity, heldUnits); err != nil {
			return crowd, err
		}
		defer hold.release()
	}
	selling, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() {
		_, err := crowd.send(selling, f.public, faultRate)
		over <- err
	}()
	healed, err := f.fault(ctx, o, fault, crowd, hold, dice)
	if err != nil {
		stop()
		return crowd, errors.Join(err, <-over)
	}
	patience := time.AfterFunc(time.Until(healed.Add(restWithin)), stop)
	defer patience.Stop()
	if err := <-over; err != nil {
		return crowd, err
	}
	var late []string
	told := crowd.told(func(format string, args ...any) { late = append(late, fmt.Sprintf(format, args...)) }, o.scenario.rejectionAllowed)
	told.eventsLost = o.scenario.eventsLost
	o.verdict = f.awaitRest(ctx, saleActivity, saleSKUName, told, healed)
	for _, text := range append(late, f.died()...) {
		o.verdict.violation("%s", text)
	}
	o.admitted, o.units = len(told.admitted), o.verdict.live
	return crowd, nil
}

// fault waits for the moment, strikes, and heals. A hold that is given has been there from the beginning.
func (f *field) fault(ctx context.Context, o *outcome, fault fault, crowd *buyers, hold *settlementHold, dice *rand.Rand) (time.Time, error) {
	stage, cancel := context.WithTimeout(ctx, faultStage)
	defer cancel()
	if err := crowd.reach(stage, warmUp); err != nil {
		return time.Time{}, err
	}
	if fault.ready != nil {
		if err := fault.ready(stage, f); err != nil {
			return time.Time{}, fmt.Errorf("prepare the fault: %w", err)
		}
	}
	if hold == nil {
		what := heldUnits
		if o.scenario.backlog > 0 {
			what = heldPartitions
		}
		var err error
		if hold, err = f.holdSettlement(stage, saleActivity, what); err != nil {
			return time.Time{}, err
		}
		defer hold.release()
	}
	want := int64(hold.decided + leastInFlight + 50 + dice.IntN(200))
	switch {
	case o.scenario.soldOut:
		want = soldOutAt
	case o.scenario.backlog > 0: // more than one transaction settles
		want += 2 * leastInFlight
	}
	if err := crowd.reach(stage, want); err != nil {
		return time.Time{}, err
	}
	if o.inFlight = hold.undecided(crowd.admittedIDs()); o.inFlight < leastInFlight {
		return time.Time{}, fmt.Errorf("only %d orders are in flight, %d are needed: it does not count", o.inFlight, leastInFlight)
	}
	proof, err := fault.strike(ctx, f)
	if err != nil {
		return time.Time{}, fmt.Errorf("strike: %w", err)
	}
	if o.scenario.backlog == 0 {
		hold.release()
	}
	if err := wait(ctx, fault.lasts); err != nil {
		return time.Time{}, err
	}
	if o.proof = proof; fault.heal != nil {
		if proof, err = fault.heal(ctx, f); err != nil {
			return time.Time{}, fmt.Errorf("heal: %w", err)
		}
		if o.proof != "" && proof != "" {
			o.proof += "; "
		}
		o.proof += proof
	}
	if o.proof == "" {
		return time.Time{}, errors.New("nothing proves the fault: it does not count")
	}
	if err := wait(ctx, o.scenario.backlog); err != nil {
		return time.Time{}, err
	}
	hold.release()
	return time.Now(), nil
}

// What a hold locks: the units of a sale, so that a worker waits in the middle of its transaction, or the positions
// of the partitions, so that none begins while everything else in the ledger goes on.
const (
	heldUnits      = `skus where activity_id = $1`
	heldPartitions = `partitions where $1 <> ''`
)

// settlementHold keeps rows locked that every settlement needs, so that accepted orders pile up undecided.
type settlementHold struct {
	db       *pgx.Conn
	decided  int // rows when the hold began
	rows     map[string]bool
	released bool
}

func (f *field) holdSettlement(ctx context.Context, activity, what string) (*settlementHold, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*storeCall)
	defer cancel()
	db, err := f.ledger(ctx)
	if err != nil {
		return nil, err
	}
	h := &settlementHold{db: db, rows: map[string]bool{}}
	err = func() error {
		if _, err := db.Exec(ctx, `begin`); err != nil {
			return err
		}
		table, rest, _ := strings.Cut(what, " ")
		if _, err := db.Exec(ctx, `select 1 from `+f.table(table)+` `+rest+` for update`, activity); err != nil {
			return err
		}
		rows, err := db.Query(ctx, `select id::text from `+f.table("orders")+` where activity_id = $1`, activity)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			h.rows[id] = true
		}
		h.decided = len(ids)
		return err
	}()
	if err != nil {
		h.release()
		return nil, fmt.Errorf("hold the settlement of %s: %w", activity, err)
	}
	return h, nil
}

// undecided counts the orders that the ledger does not know, and cannot learn of while the hold lasts.
func (h *settlementHold) undecided(ids []string) (n int) {
	for _, id := range ids {
		if !h.rows[id] {
			n++
		}
	}
	return n
}

// release lets the workers go on. A server that was killed meanwhile has done it already.
func (h *settlementHold) release() {
	if h.released {
		return
	}
	h.released = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.db.Close(ctx)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
