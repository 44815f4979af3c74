package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	expiringTTL = 50 * time.Millisecond
	stallEvery  = 100 // sections; one of them stalls, as a pause of the garbage collector or of the disk would
	stallFor    = 80 * time.Millisecond
)

// noLock is group A: read the stock, check it, write what was computed. Who read the same number writes the same
// number.
type noLock struct{ *groupShop }

func (s noLock) sell(ctx context.Context, o groupOrder) (bool, error) {
	return s.readCheckWrite(ctx, o, func() {})
}

// readCheckWrite does between reading and writing what it is told.
func (g *groupShop) readCheckWrite(ctx context.Context, o groupOrder, between func()) (sold bool, err error) {
	err = pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) error {
		var stock int
		if err := tx.QueryRow(ctx, `select stock from skus where activity_id = $1`, o.Activity).Scan(&stock); err != nil {
			return err
		}
		if stock < 1 {
			return nil
		}
		between()
		if _, err := tx.Exec(ctx, `update skus set stock = $2 where activity_id = $1`, o.Activity, stock-1); err != nil {
			return err
		}
		sold = true
		_, err := tx.Exec(ctx, `insert into orders (id, activity_id, user_id) values ($1, $2, $3)`, o.ID, o.Activity, o.User)
		return err
	})
	if err == nil && sold {
		g.settled.Inc()
	}
	return sold, err
}

// expiringLock is group B: the same between SET NX and a release that compares the token. It is the lock that
// everybody writes, and it does not help against a section that outlives it.
type expiringLock struct {
	shop     *groupShop
	sections atomic.Int64
}

var unlockScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (s *expiringLock) sell(ctx context.Context, o groupOrder) (bool, error) {
	key, token := s.shop.key("lock:"+o.Activity), uuid.NewString()
	for {
		err := s.shop.redis.SetArgs(ctx, key, token, redis.SetArgs{Mode: "NX", TTL: expiringTTL}).Err()
		if err == nil {
			break
		}
		if !errors.Is(err, redis.Nil) {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, errBusy
		case <-time.After(time.Millisecond + rand.N(2*time.Millisecond)):
		}
	}
	defer func() { _ = unlockScript.Run(context.WithoutCancel(ctx), s.shop.redis, []string{key}, token).Err() }()
	return s.shop.readCheckWrite(ctx, o, func() {
		if s.sections.Add(1)%stallEvery == stallEvery/2 {
			time.Sleep(stallFor) // what the lock does not survive; it is the subject here
		}
	})
}
