package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkServer warns of an eviction policy that deletes keys with an expiry. A server
// that does not show its configuration is believed.
func (b *redisBackend) checkServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit(b.core.cfg.TTL))
	defer cancel()
	settings, err := b.client.ConfigGet(ctx, "maxmemory-policy").Result()
	var refused redis.Error
	if errors.As(err, &refused) {
		return nil
	}
	if policy := settings["maxmemory-policy"]; err == nil && policy != "" && policy != "noeviction" {
		b.core.log.Warn("redis may evict locks when its memory is full; set maxmemory-policy noeviction", "maxmemory_policy", policy)
	}
	return err
}

func (b *redisBackend) check(ctx context.Context, h *hold) (Reason, error) {
	value, err := b.client.Get(ctx, b.lockKey(h.name)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Revoked, nil
	case err != nil && errors.Is(redisError(err, h.name), ErrForeignKey):
		return Stolen, nil
	case err != nil:
		return 0, err
	case !strings.HasPrefix(value, ownerMark(h.owner)):
		return Stolen, nil
	}
	return 0, nil
}

func (b *redisBackend) list(ctx context.Context, prefix string, exact bool) ([]Info, error) {
	how := "prefix"
	if exact {
		how = "exact"
	}
	rows, err := listScript.Run(ctx, b.client, []string{b.index()}, b.tag+"held:", encodeName(prefix), how).Slice()
	if err != nil {
		return nil, redisError(err, prefix)
	}
	infos := make([]Info, 0, len(rows))
	for _, r := range rows {
		row, _ := r.([]any)
		if len(row) != 3 {
			return nil, fmt.Errorf("list script: row of %d fields", len(row))
		}
		name, err := decodeName(text(row[0]))
		if err != nil {
			return nil, err
		}
		in, ok := readValue(name, text(row[1]))
		if !ok {
			return nil, foreignKey(name)
		}
		in.TTL = msLeft(row[2])
		infos = append(infos, in)
	}
	return infos, b.countWaiters(ctx, infos)
}

// countWaiters fills in how many processes listen for each lock's release.
func (b *redisBackend) countWaiters(ctx context.Context, infos []Info) error {
	if len(infos) == 0 {
		return nil
	}
	channels := make([]string, len(infos))
	for i, in := range infos {
		channels[i] = b.wakeChannel(in.Name)
	}
	var counts map[string]int64
	var err error
	if b.sharded {
		counts, err = b.shardCounts(ctx, channels)
	} else {
		counts, err = b.client.PubSubNumSub(ctx, channels...).Result()
	}
	for i := range infos {
		infos[i].Waiters = int(counts[channels[i]])
	}
	return err
}

// shardCounts asks the node that owns the namespace's slot.
func (b *redisBackend) shardCounts(ctx context.Context, channels []string) (map[string]int64, error) {
	node, err := b.client.(*redis.ClusterClient).MasterForKey(ctx, b.index())
	if err != nil {
		return nil, err
	}
	return node.PubSubShardNumSub(ctx, channels...).Result()
}

// msLeft reads a PTTL; a key without an expiry counts as one that is about to expire.
func msLeft(v any) time.Duration {
	ms, _ := v.(int64)
	return time.Duration(max(ms, 0)) * time.Millisecond
}
