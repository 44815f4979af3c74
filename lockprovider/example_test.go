package lockprovider_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// open connects to the Redis of this test binary.
func open() *lockprovider.Provider {
	p, err := lockprovider.Open(context.Background(), lockprovider.Config{
		Backend: "redis", RedisURL: stacktest.Get(example{}).RedisURL(), Namespace: "example", TTL: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// example stands in for the test that an example has not.
type example struct{ testing.TB }

func (example) Helper() {}

func (example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

// Run something on one machine at a time. The work gets a context that ends when the
// lease does.
func ExampleDo() {
	p := open()
	defer p.Close(context.Background())
	err := lockprovider.Do(context.Background(), p, "job/reconcile", func(ctx context.Context, l *lockprovider.Lease) error {
		fmt.Println("working, fenced by a token above 0:", l.Token() > 0)
		return ctx.Err()
	}, lockprovider.WithWait(5*time.Second), lockprovider.WithPurpose("job"))
	switch {
	case errors.Is(err, lockprovider.ErrWaitTimeout):
		fmt.Println("somebody else is at it")
	case errors.Is(err, lockprovider.ErrLost):
		fmt.Println("lost in the middle: whatever was not committed has to be done again")
	case err != nil:
		fmt.Println(err)
	}
	// Output: working, fenced by a token above 0: true
}

// Hold a partition for as long as there is work, and check before each batch.
func ExampleProvider_TryAcquire() {
	p, q := open(), open()
	defer p.Close(context.Background())
	defer q.Close(context.Background())
	l, err := p.TryAcquire(context.Background(), "partition/3", lockprovider.WithNote("worker a"))
	if err != nil {
		log.Fatal(err)
	}
	var held *lockprovider.HeldError
	if _, err := q.TryAcquire(context.Background(), "partition/3"); errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Note)
	}
	for batch := range 2 {
		if err := l.Err(); err != nil {
			log.Fatal(err)
		}
		fmt.Println("batch", batch)
	}
	fmt.Println("released:", l.Release(context.Background()) == nil)
	// Output:
	// held by worker a
	// batch 0
	// batch 1
	// released: true
}

// Fence a row of your own: the first statement of each transaction claims it for the
// token, which keeps out every older holder, however late its write comes.
func ExampleLease_Token() {
	ctx := context.Background()
	p := open()
	defer p.Close(ctx)
	db, err := pgx.Connect(ctx, stacktest.Get(example{}).PostgresURL())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE TEMP TABLE stock AS SELECT 's1' AS sku, 10 AS qty, 0::bigint AS fence"); err != nil {
		log.Fatal(err)
	}
	take := func(l *lockprovider.Lease, n int) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "UPDATE stock SET fence = $1 WHERE sku = 's1' AND fence <= $1", int64(l.Token()))
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return errors.New("a newer holder has been here")
			}
			_, err = tx.Exec(ctx, "UPDATE stock SET qty = qty - $1 WHERE sku = 's1' AND qty >= $1", n)
			return err
		})
	}
	old, err := p.Acquire(ctx, "stock/s1")
	if err != nil {
		log.Fatal(err)
	}
	if err := p.ForceRelease(ctx, "stock/s1", old.Token()); err != nil { // or it is paused for longer than the TTL
		log.Fatal(err)
	}
	err = lockprovider.Do(ctx, p, "stock/s1", func(_ context.Context, l *lockprovider.Lease) error { return take(l, 1) })
	fmt.Println("the new holder:", err)
	fmt.Println("the old holder:", take(old, 1))
	// Output:
	// the new holder: <nil>
	// the old holder: a newer holder has been here
}

// Announce a process and list those that are alive.
func ExampleProvider_List() {
	p := open()
	defer p.Close(context.Background())
	for _, instance := range []string{"a", "b"} {
		if _, err := p.Acquire(context.Background(), "member/"+instance, lockprovider.WithNote("worker")); err != nil {
			log.Fatal(err)
		}
	}
	members, err := p.List(context.Background(), "member/")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range members {
		fmt.Println(m.Name, m.Note)
	}
	// Output:
	// member/a worker
	// member/b worker
}

// Call functions that take the same lock without a deadlock: the hold travels in the
// context.
func ExampleWithReentry() {
	p := open()
	defer p.Close(context.Background())
	outer, err := p.Acquire(context.Background(), "rebuild/a1")
	if err != nil {
		log.Fatal(err)
	}
	defer outer.Release(context.Background())
	inner, err := p.Acquire(outer.Context(), "rebuild/a1", lockprovider.WithReentry())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("same hold:", inner.Token() == outer.Token())
	fmt.Println("inner release frees it:", inner.Release(context.Background()) == nil && outer.Err() != nil)
	_, err = p.Acquire(outer.Context(), "rebuild/a1")
	fmt.Println("without the option:", errors.Is(err, lockprovider.ErrReentrant))
	// Output:
	// same hold: true
	// inner release frees it: false
	// without the option: true
}
