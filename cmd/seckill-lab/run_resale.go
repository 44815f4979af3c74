package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bounds of a sale with a payment window after the rush: each window, the part of the units that nobody paid is
// sold again, so their number shrinks fast.
const (
	resaleWindows = 40
	resaleConns   = 16
)

// resale is what happened to the units that were sold and not paid.
type resale struct {
	till   *till
	course []resaleLook // one a window, and the last
	asked  int64        // requests of the buyers who waited
	took   time.Duration
}

// resaleLook is what the ledger says at one moment.
type resaleLook struct {
	at                    time.Duration // from the start of the rush
	unpaid, expired, paid int64
}

func (l resaleLook) String() string {
	return fmt.Sprintf("after %-7s %s paid, %s to be paid, %s expired so far", short(l.at), count(l.paid), count(l.unpaid), count(l.expired))
}

// waiting is the buyers who did not get a unit. They stand in a queue and ask again, one after the other.
type waiting struct {
	crowd *crowd
	queue []uint32
	asked []uint32 // buyer of each request, 4 bytes a request
}

// stillWaiting is everybody who was never told of an order, in the order in which they came.
func stillWaiting(c *crowd, t *tally) *waiting {
	seen := make([]bool, c.buyers)
	for _, told := range []map[string]uint32{t.admitted, t.repeated} {
		for _, buyer := range told {
			seen[buyer] = true
		}
	}
	w := &waiting{crowd: c}
	for _, buyer := range c.order {
		if !seen[buyer] {
			seen[buyer] = true
			w.queue = append(w.queue, buyer)
		}
	}
	return w
}

// fill lets the first of the queue ask. If nobody stands there, because all wait for their answers, somebody of the
// crowd taps again.
func (w *waiting) fill(n int64, r *loadRequest) {
	buyer := uint32(n % int64(w.crowd.buyers))
	if len(w.queue) > 0 {
		buyer, w.queue = w.queue[0], w.queue[1:]
	}
	w.asked = append(w.asked, buyer)
	w.crowd.ask(buyer, r)
}

// heard sends who got nothing to the end of the queue.
func (w *waiting) heard(a *loadAnswer) {
	if a.Status != 202 && a.Status != 200 {
		w.queue = append(w.queue, w.asked[a.N])
	}
}

// sellAgain goes on after the rush until every unit is paid. Nothing drives it but the deadlines: unpaid orders
// expire, and who still waits asks again.
func (r *resale) sellAgain(ctx context.Context, words io.Writer, serving *service, c *crowd, t *tally, o runOptions, db *pgx.Conn, start time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, resaleWindows*o.window+settleWait)
	defer cancel()
	asking, enough := context.WithCancel(ctx)
	defer enough()
	w := stillWaiting(c, t)
	t.buyer = func(n int64) uint32 { return w.asked[n] }
	loaded := make(chan error, 1)
	go func() {
		result, err := load(asking, loadConfig{
			Target: "http://" + serving.public, Requests: 1 << 40, Connections: resaleConns,
			Pace:   constantPace(100 + 2*float64(o.units)/o.window.Seconds()),
			Answer: func(a *loadAnswer) { t.heard(a); w.heard(a) },
		}, w.fill)
		if err == nil {
			r.asked = result.Sent
		}
		loaded <- err
	}()
	err := r.watch(ctx, words, db, o, start)
	enough()
	return errors.Join(err, <-loaded) // the tally is ours again
}

// watch looks at the ledger until every unit is paid, and notes one look a window.
func (r *resale) watch(ctx context.Context, words io.Writer, db *pgx.Conn, o runOptions, start time.Time) error {
	fmt.Fprintf(words, "%d %% of the buyers do not pay; their orders expire %s after they were sold, and who still waits asks again\n", o.unpaid, o.window)
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for next := time.Since(start); ; {
		look, err := lookAtPayments(ctx, db, start)
		if err != nil {
			return err
		}
		over := look.paid == o.units || ctx.Err() != nil
		if over || look.at >= next {
			next = look.at + o.window
			r.course = append(r.course, look)
			fmt.Fprintln(words, look)
		}
		if r.took = look.at; over {
			return nil // the audit and the report say what is missing
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// lookAtPayments is bounded by the server, so that the last look is not cut off by the end of ctx.
func lookAtPayments(ctx context.Context, db *pgx.Conn, start time.Time) (l resaleLook, err error) {
	err = db.QueryRow(context.WithoutCancel(ctx), `
		select count(*) filter (where status = 'pending_payment'), count(*) filter (where status = 'expired'),
		       count(*) filter (where status = 'paid')
		  from seckill.orders where activity_id = $1`, saleActivity).Scan(&l.unpaid, &l.expired, &l.paid)
	if err != nil {
		return l, fmt.Errorf("look at the payments: %w", err)
	}
	l.at = time.Since(start)
	return l, nil
}
