package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"seckill/lockprovider"
)

// fenced is a list of numbers in Postgres that only the newest holder may write: the
// guard that a lease needs wherever its work has effects.
type fenced struct {
	pool  *pgxpool.Pool
	table string
	late  bool // claim after reading
}

func newFenced(e *Env) *fenced {
	e.Helper()
	pool, err := pgxpool.New(context.Background(), e.h.PostgresURL)
	e.Must(err)
	f := &fenced{pool: pool, table: pgx.Identifier{e.Namespace}.Sanitize(), late: e.h.ClaimLate}
	e.Cleanup(func() {
		_, _ = pool.Exec(context.Background(), "DROP TABLE IF EXISTS "+f.table)
		pool.Close()
	})
	_, err = pool.Exec(e.Ctx(soon), "CREATE TABLE "+f.table+" (id int PRIMARY KEY, fence bigint NOT NULL, list bigint[] NOT NULL)")
	e.Must(err)
	_, err = pool.Exec(e.Ctx(soon), "INSERT INTO "+f.table+" VALUES (1, 0, '{}')")
	e.Must(err)
	return f
}

var errFenced = errors.New("a newer holder has been here")

// add appends by read and write back, which loses numbers if two do it at once. The
// claim comes first: it keeps older holders out before anything is read.
func (f *fenced) add(ctx context.Context, token uint64, number int64, between func()) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if !f.late {
			if err := f.claim(ctx, tx, token); err != nil {
				return err
			}
		}
		var list []int64
		if err := tx.QueryRow(ctx, "SELECT list FROM "+f.table+" WHERE id = 1").Scan(&list); err != nil {
			return err
		}
		between()
		if f.late {
			if err := f.claim(ctx, tx, token); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, "UPDATE "+f.table+" SET list = $1 WHERE id = 1 AND fence = $2", append(list, number), int64(token))
		if err == nil && tag.RowsAffected() == 0 {
			return errFenced
		}
		return err
	})
}

func (f *fenced) claim(ctx context.Context, tx pgx.Tx, token uint64) error {
	tag, err := tx.Exec(ctx, "UPDATE "+f.table+" SET fence = $1 WHERE id = 1 AND fence <= $1", int64(token))
	if err == nil && tag.RowsAffected() == 0 {
		return errFenced
	}
	return err
}

// list reads what is there.
func (f *fenced) list(ctx context.Context) (list []int64, err error) {
	err = f.pool.QueryRow(ctx, "SELECT list FROM "+f.table+" WHERE id = 1").Scan(&list)
	return list, err
}

// missing compares what was acknowledged with what is there.
func missing(acked, there []int64) error {
	slices.Sort(there)
	for _, n := range acked {
		if _, ok := slices.BinarySearch(there, n); !ok {
			return fmt.Errorf("%d was acknowledged and is not there", n)
		}
	}
	return nil
}

// fencedInPostgres: a stale holder writes nothing, the same holder again and again
// does, and the claim alone already keeps the older one out.
func fencedInPostgres(e *Env) {
	f := newFenced(e)
	ctx := e.Ctx(30 * time.Second)
	p := e.Open()
	nothing := func() {}
	a := e.Acquire(p, "n")
	e.Must(f.add(ctx, a.Token(), 1, nothing))
	e.Must(f.add(ctx, a.Token(), 2, nothing))
	e.Must(p.ForceRelease(ctx, "n", a.Token()))
	b := e.Acquire(p, "n")
	e.Must(pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error { return f.claim(ctx, tx, b.Token()) }))
	if err := f.add(ctx, a.Token(), 3, nothing); !errors.Is(err, errFenced) {
		e.Fatalf("the stale holder wrote: %v", err)
	}
	e.Must(f.add(ctx, b.Token(), 4, nothing))
	list, err := f.list(ctx)
	e.Must(err)
	if !slices.Equal(list, []int64{1, 2, 4}) {
		e.Fatalf("list %v", list)
	}
	e.Release(b)
	if err := a.Release(ctx); !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("release of the evicted lease: %v", err)
	}
}

// claimBeforeReading: the older holder's write is already under way when the newer one
// reads. Whatever of the two is acknowledged must be there in the end.
func claimBeforeReading(e *Env) {
	f := newFenced(e)
	ctx := e.Ctx(30 * time.Second)
	p := e.Open()
	a := e.Acquire(p, "n")
	e.Must(f.add(ctx, a.Token(), 1, func() {}))
	e.Must(p.ForceRelease(ctx, "n", a.Token()))
	b := e.Acquire(p, "n")
	old := make(chan error, 1)
	acked := []int64{1, 3}
	e.Must(f.add(ctx, b.Token(), 3, func() {
		go func() { old <- f.add(ctx, a.Token(), 2, func() {}) }()
		select {
		case err := <-old: // not kept out: let it be written before the newer one writes
			old <- err
		case <-time.After(2 * time.Second): // waits for the row
		}
	}))
	if err := <-old; err == nil {
		acked = append(acked, 2)
	}
	list, err := f.list(ctx)
	e.Must(err)
	e.Must(missing(acked, list))
	e.Release(b)
}
