package lockprovider

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts. Each acts only after a comparison, in one step of the server.
var (
	//go:embed redis/acquire.lua
	acquireText string
	//go:embed redis/renew.lua
	renewText string
	//go:embed redis/release.lua
	releaseText string
	//go:embed redis/force.lua
	forceText string
	//go:embed redis/list.lua
	listText string

	acquireScript = redis.NewScript(acquireText)
	renewScript   = redis.NewScript(renewText)
	releaseScript = redis.NewScript(releaseText)
	forceScript   = redis.NewScript(forceText)
	listScript    = redis.NewScript(listText)
)

const (
	fenceLife    = 7 * 24 * time.Hour
	renewalBatch = 100
	policyPause  = 5 * time.Second
	swiftLimit   = stayLimit / 5
)

// redisBackend keeps one string per lock, one fence counter and one index per
// namespace. All keys of a namespace share a hash tag, so that scripts stay within
// one slot of a cluster and one subscription hears all wake-ups.
type redisBackend struct {
	client  redis.UniversalClient
	core    *core
	owned   bool   // close the client at the end
	tag     string // "<ns>:{<ns>/lock}:"
	publish string // PUBLISH, or SPUBLISH on a cluster
	sharded bool
	obeys   bool // the client keeps to the deadline of a context
	off     holes
	ears    *ears
	swift   atomic.Bool // the latest try was answered within swiftLimit

	mu    sync.Mutex
	lines map[string]*line // local waiters, by name
}

func newRedisBackend(client redis.UniversalClient, cfg Config, owned bool) *redisBackend {
	b := &redisBackend{client: client, owned: owned, publish: "PUBLISH", obeys: obeys(client), off: cfg.holes, lines: map[string]*line{}}
	b.tag = cfg.Namespace + ":{" + cfg.Namespace + "/lock}:"
	b.ears = newEars(b)
	if _, ok := client.(*redis.ClusterClient); ok {
		b.publish, b.sharded = "SPUBLISH", true
	}
	return b
}

func (b *redisBackend) name() string { return "redis" }

func (b *redisBackend) shared() bool { return false }

func (b *redisBackend) batch() int { return renewalBatch }

func (b *redisBackend) roundTTL(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }

func (b *redisBackend) lockKey(name string) string { return b.tag + "held:" + encodeName(name) }

func (b *redisBackend) index() string { return b.tag + "index" }

func (b *redisBackend) fence() string { return b.tag + "fence" }

func (b *redisBackend) wakeChannel(name string) string {
	return b.tag + "wake:" + encodeName(name)
}

func (b *redisBackend) marker(nonce string) string { return b.tag + "undone:" + nonce }

func (b *redisBackend) evictions() string { return b.tag + "evicted" }

func (b *redisBackend) openSession(context.Context, time.Duration) (int64, time.Duration, error) {
	return 0, 0, errors.ErrUnsupported
}

func (b *redisBackend) endSession(context.Context, *session) error { return errors.ErrUnsupported }

// listen looks once whether the server may throw locks away; the subscriptions start
// on demand (ears.start).
func (b *redisBackend) listen(ctx context.Context) {
	b.core.wg.Add(1)
	go func() {
		defer b.core.wg.Done()
		for b.checkServer(ctx) != nil && sleep(ctx, policyPause) {
		}
	}()
}

func (b *redisBackend) close() error {
	b.ears.shut()
	if !b.owned {
		return nil
	}
	return b.client.Close()
}

func (b *redisBackend) try(ctx context.Context, a *attempt) (grant, error) {
	began, sent := time.Now(), b.core.clock.Now()
	answer, err := acquireScript.Run(
		ctx, b.client,
		[]string{b.lockKey(a.name), b.fence(), b.index(), b.marker(a.nonce)},
		ownerMark(a.owner), a.req.ttl.Milliseconds(), a.req.note, encodeName(a.name), fenceLife.Milliseconds(), flag(b.off.tokenFloor),
	).Result()
	b.swift.Store(b.obeys && err == nil && time.Since(began) < swiftLimit)
	switch {
	case errors.Is(err, redis.Nil):
		return grant{}, errAborted
	case err != nil:
		return grant{}, redisError(err, a.name)
	}
	b.ears.start() // the eviction channel, once
	if b.off.sendTime {
		sent = b.core.clock.Now()
	}
	switch v := answer.(type) {
	case string:
		token, err := strconv.ParseUint(v, 10, 64)
		return grant{token: token, sent: sent}, err
	case []any:
		if len(v) != 2 {
			break
		}
		if in, ok := readValue(a.name, text(v[0])); ok {
			in.TTL = msLeft(v[1])
			return grant{}, &HeldError{Holder: in}
		}
	}
	return grant{}, fmt.Errorf("lockprovider: acquire %q: key %q: %w; remove it or choose another namespace", a.name, b.lockKey(a.name), ErrForeignKey)
}

func (b *redisBackend) renew(ctx context.Context, batch []*session) ([]renewal, error) {
	keys := []string{b.index()}
	args := make([]any, 0, 3*len(batch))
	place := make([]int, len(batch)) // in the answer, from 1; 0: released in the meantime
	b.core.mu.Lock()
	for i, s := range batch {
		for h := range s.holds {
			keys = append(keys, b.lockKey(h.name))
			args = append(args, ownerMark(h.owner), s.ttl.Milliseconds(), encodeName(h.name))
			place[i] = len(keys) - 1
		}
	}
	b.core.mu.Unlock()
	answers := make([]renewal, len(batch))
	if len(keys) == 1 {
		return answers, nil
	}
	if b.off.renewCreates {
		b.plant(ctx, keys[1:], args)
	}
	// Sent in full: the second round trip of a flushed script could cost a slow link the lease.
	words, err := renewScript.Eval(ctx, b.client, keys, args...).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(words) != len(keys)-1 {
		return nil, fmt.Errorf("renew script: %d answers for %d locks", len(words), len(keys)-1)
	}
	for i, s := range batch {
		answers[i].granted = s.ttl
		if place[i] > 0 {
			answers[i].lost = renewalLoss(words[place[i]-1])
		}
	}
	return answers, nil
}

func renewalLoss(word int64) Reason {
	switch word {
	case 1:
		return 0
	case -1:
		return Stolen
	}
	return Revoked
}

// plant writes locks that are gone anew, as a renewal must never do.
func (b *redisBackend) plant(ctx context.Context, keys []string, args []any) {
	for i, k := range keys {
		b.client.SetNX(ctx, k, text(args[3*i])+"1 0 ", 0)
	}
}

func (b *redisBackend) release(ctx context.Context, h *hold) (bool, error) {
	return b.giveBack(ctx, h.name, h.owner, h.nonce, h.unsure)
}

func (b *redisBackend) undo(ctx context.Context, a *attempt) error {
	_, err := b.giveBack(ctx, a.name, a.owner, a.nonce, a.unsure)
	return err
}

// giveBack leaves a marker if a request to take the name may still be under way: it would
// find the name free.
func (b *redisBackend) giveBack(ctx context.Context, name, owner, nonce string, unsure bool) (bool, error) {
	keys := []string{b.lockKey(name), b.index()}
	if unsure && !b.off.abortMarker {
		keys = append(keys, b.marker(nonce))
	}
	n, err := releaseScript.Run(
		ctx, b.client, keys,
		ownerMark(owner), encodeName(name), b.publish, b.wakeChannel(name), flag(b.off.ownerCompare), markerLife.Milliseconds(),
	).Int()
	return n == 1, err
}

func (b *redisBackend) force(ctx context.Context, name string, token uint64) error {
	n, err := forceScript.Run(
		ctx, b.client, []string{b.lockKey(name), b.index()},
		strconv.FormatUint(token, 10), encodeName(name), b.publish, b.wakeChannel(name), b.evictions(),
	).Int()
	switch {
	case err != nil:
		return redisError(err, name)
	case n == 0:
		return ErrNotHeld
	case n == -1:
		return ErrTokenMismatch
	case n == -2:
		return foreignKey(name)
	}
	return nil
}

// redisError tells a key of another type apart from a store that failed.
func redisError(err error, name string) error {
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return foreignKey(name)
	}
	return err
}

func foreignKey(name string) error {
	return fmt.Errorf("lockprovider: %q: %w; remove it or choose another namespace", name, ErrForeignKey)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
