package lockprovider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// TestRedisKeyOfAnotherType is case A7 with a key that no script of ours can read: it is
// left alone, and costs the lock that it replaced, not those renewed in the same call.
func TestRedisKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := stacktest.Get(t).Address("redis")
	client := redis.NewClient(&redis.Options{
		Addr: address, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	ns := stacktest.Namespace(t)
	const ttl = 3 * time.Second
	p := overRedis(t, ns, ttl, address)

	kept, err := p.Acquire(ctx, "kept")
	must(t, err)
	lost, err := p.Acquire(ctx, "lost")
	must(t, err)
	key := ns + ":{" + ns + "/lock}:held:lost"
	_, err = client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Del(ctx, key)
		tx.HSet(ctx, key, "of", "somebody else's")
		return nil
	})
	must(t, err)
	ends(t, lost, ttl)
	if why := new(lockprovider.LostError); !errors.As(lost.Err(), &why) || why.Reason != lockprovider.Stolen {
		t.Errorf("the lock that was replaced: %v", lost.Err())
	}
	stays(ctx, t, kept, ttl)
	for what, err := range map[string]error{
		"try":     second(p.TryAcquire(ctx, "lost")),
		"inspect": second(p.Inspect(ctx, "lost")),
		"force":   p.ForceRelease(ctx, "lost", lost.Token()),
	} {
		if !errors.Is(err, lockprovider.ErrForeignKey) {
			t.Errorf("%s over a foreign key: %v", what, err)
		}
	}
	must(t, kept.Release(ctx))
	if n := client.Del(ctx, key).Val(); n != 1 {
		t.Error("the foreign key is gone")
	}
}

func second[T any](_ T, err error) error { return err }
