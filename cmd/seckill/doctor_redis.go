package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

func lookAtRedis(ctx context.Context, c Config, out *checks, clocks *clockReadings) {
	client, err := openRedis(c)
	if err == nil {
		defer func() { _ = client.Close() }()
		err = client.Ping(ctx).Err()
	}
	if err != nil {
		hint := "SECKILL_REDIS_URL"
		if len(c.RedisURLs) > 1 {
			hint += " (several addresses are a Redis Cluster)"
		}
		out.away(err, "no order is accepted (503)", hint)
		return
	}
	out.reached = true
	out.ok("reachable", "it answers")
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		lookAtRedisNode(ctx, c, client, "", out)
		clocks.read("Redis", func() (int64, error) { return redisTime(ctx, client) })
		return
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		address := node.Options().Addr
		lookAtRedisNode(ctx, c, node, " ("+address+")", out)
		clocks.read("Redis "+address, func() (int64, error) { return redisTime(ctx, node) })
		return nil
	})
	if err != nil {
		out.unknown("nodes", "not every node could be asked: "+oneLine(err.Error()), "ask again when all masters answer")
	}
}

func redisTime(ctx context.Context, client redis.Cmdable) (int64, error) {
	now, err := client.Time(ctx).Result()
	return now.UnixMicro(), err
}

// redisNode is what one Redis tells of itself: INFO, and CONFIG where it is allowed.
type redisNode map[string]string

func (n redisNode) number(name string) int64 {
	v, _ := strconv.ParseInt(n[name], 10, 64)
	return v
}

func readRedisNode(ctx context.Context, client redis.Cmdable) (redisNode, error) {
	n := redisNode{}
	for _, section := range []string{"server", "persistence", "memory", "replication", "cluster"} {
		text, err := client.Info(ctx, section).Result()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				n[name] = value
			}
		}
	}
	for _, name := range []string{"appendfsync", "no-appendfsync-on-rewrite", "lazyfree-lazy-expire"} { // INFO lacks them
		if got, err := client.ConfigGet(ctx, name).Result(); err == nil {
			n[name] = got[name]
		}
	}
	return n, nil
}

func lookAtRedisNode(ctx context.Context, c Config, client redis.Cmdable, where string, out *checks) {
	n, err := readRedisNode(ctx, client)
	if err != nil {
		out.unknown("settings", "INFO is refused"+where+": "+oneLine(err.Error()), "a Redis user that may run INFO: gates need it, too")
		return
	}
	judgeRedis(out, n, len(c.RedisURLs), where)
	judgeRedisPersistence(out, n, where)
	judgeRedisMemory(out, n, where)
	judgeRedisExpiry(out, n, where)
}

func judgeRedis(out *checks, n redisNode, addresses int, where string) {
	version := n["redis_version"]
	if versionBelow(version, 7, 0) {
		out.finding(warning, "version", "Redis "+version+where, "503: the scripts are written for and tested on 7 and later", "Redis 7 or later")
	} else {
		out.ok("version", "%s%s", version, where)
	}
	clustered := n["cluster_enabled"] == "1"
	switch {
	case n["role"] != "master":
		out.finding(serious, "role", "it is a replica"+where, "no order is accepted (503): a replica refuses the gates' scripts", "SECKILL_REDIS_URL of the master")
	case clustered && addresses == 1:
		out.finding(serious, "cluster mode", "it is a node of a cluster, and one address is configured", "no order of sales that another node keeps is accepted (503)",
			"SECKILL_REDIS_URL with two or more addresses of the cluster, separated by commas")
	default:
		out.ok("role", "%s, cluster mode %t%s", n["role"], clustered, where)
	}
}

func judgeRedisPersistence(out *checks, n redisNode, where string) {
	const second = "G3's second copy: if NATS loses the end of its log in the same crash, orders of that moment are nowhere; leases on this Redis are forgotten, too"
	if n["aof_enabled"] != "1" {
		out.finding(warning, "appendonly", "appendonly is off"+where, second, "appendonly yes and appendfsync everysec in redis.conf")
	} else {
		switch n["appendfsync"] {
		case "":
			out.unknown("appendonly", "appendfsync cannot be seen, CONFIG is refused"+where, "a Redis user that may run CONFIG GET")
		case "no":
			out.finding(warning, "appendonly", "appendfsync is no"+where, second, "appendfsync everysec in redis.conf")
		default:
			out.ok("appendonly", "yes, appendfsync %s%s", n["appendfsync"], where)
		}
		if n["no-appendfsync-on-rewrite"] == "yes" {
			out.finding(note, "appendonly", "no-appendfsync-on-rewrite is yes"+where, "a crash of the machine may lose half a minute of reservations", "no-appendfsync-on-rewrite no in redis.conf")
		}
	}
	failed := []string{}
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"} {
		if status := n[name]; status != "" && status != "ok" {
			failed = append(failed, name+" "+status)
		}
	}
	if len(failed) > 0 {
		out.finding(serious, "persistence", strings.Join(failed, ", ")+where, "503: Redis refuses writes, or loses what it is told, since it cannot save",
			"see the log of Redis: mostly a full disk or a missing right on its folder")
		return
	}
	out.ok("persistence", "the last saves succeeded%s", where)
}

func judgeRedisMemory(out *checks, n redisNode, where string) {
	policy, most, used := n["maxmemory_policy"], n.number("maxmemory"), n.number("used_memory")
	switch {
	case policy == "":
		out.unknown("eviction", "maxmemory_policy is not shown"+where, "see by CONFIG GET maxmemory-policy that it is noeviction")
	case policy != "noeviction" && most > 0:
		out.finding(serious, "eviction", fmt.Sprintf("maxmemory %d with %s%s", most, policy, where),
			"G3's second copy and the answers: a full Redis throws reservations, limits and leases away; buyers are admitted, and rejected later by the ledger",
			"maxmemory-policy noeviction in redis.conf")
	case policy != "noeviction":
		out.finding(note, "eviction", policy+", while maxmemory is not set"+where, "nothing, until somebody sets maxmemory", "maxmemory-policy noeviction in redis.conf")
	case most > 0 && used > most/5*4:
		out.finding(warning, "memory", fmt.Sprintf("%d of %d bytes are used%s", used, most, where), "503: a full Redis refuses reservations", "a higher maxmemory; keys of closed sales stay until they are deleted")
	default:
		out.ok("eviction", "noeviction, %d bytes used, maxmemory %d%s", used, most, where)
	}
}

// judgeRedisExpiry: the gate of a closed sale expires, with a record of every buyer.
func judgeRedisExpiry(out *checks, n redisNode, where string) {
	const check = "expiry"
	switch n["lazyfree-lazy-expire"] {
	case "":
		out.unknown(check, "lazyfree-lazy-expire cannot be seen, CONFIG is refused"+where, "a Redis user that may run CONFIG GET")
	case "no":
		out.finding(note, check, "lazyfree-lazy-expire is no"+where, "answers: when the gate of a large closed sale expires, Redis stands still while it is freed",
			"lazyfree-lazy-expire yes in redis.conf")
	default:
		out.ok(check, "lazyfree-lazy-expire %s%s", n["lazyfree-lazy-expire"], where)
	}
}
