package main

import (
	"net/netip"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// judgement is what is judged of one thing, and the severities of what is found.
type judgement struct {
	judge func(*checks)
	want  string
}

func judgements() map[string]judgement {
	all := map[string]judgement{
		"old backlog":           {func(out *checks) { judgeBacklog(out, noon.Add(-31*time.Minute), noon, time.Hour) }, "serious"},
		"young backlog":         {func(out *checks) { judgeBacklog(out, noon.Add(-29*time.Minute), noon, time.Hour) }, ""},
		"backlog kept for ever": {func(out *checks) { judgeBacklog(out, noon.Add(-900*time.Hour), noon, 0) }, ""},
		"no backlog":            {func(out *checks) { judgeBacklog(out, time.Time{}, noon, time.Hour) }, ""},
		"old NATS":              {func(out *checks) { judgeNATSVersion(out, "2.12.9") }, "serious"},
		"NATS 2.14":             {func(out *checks) { judgeNATSVersion(out, "2.14.0-RC.1") }, ""},
		"NATS 3":                {func(out *checks) { judgeNATSVersion(out, "v3.0.1") }, ""},
		"small NATS":            {func(out *checks) { judgePayload(out, 65536) }, "warning"},
		"short lease":           {func(out *checks) { judgeTimes(Config{LockTTL: 2 * time.Second, LogAckWait: 5 * time.Second}, out) }, "warning"},
		"long lease": {func(out *checks) {
			judgeTimes(Config{LockTTL: time.Minute, LogAckWait: 90 * time.Second, LogMaxAge: time.Hour}, out)
		}, "note warning"},
		"Redis clock ahead": {func(out *checks) {
			lookAtClocks(&clockReadings{list: []clockReading{{store: "Redis", ahead: time.Second}, {store: "Postgres", ahead: time.Millisecond}}}, out)
		}, "warning"},
		"slow answer": {func(out *checks) {
			lookAtClocks(&clockReadings{list: []clockReading{{store: "Redis", ahead: time.Second, unsure: time.Second}}}, out)
		}, ""},
		"weak token":    {func(out *checks) { judgeAdmin(Config{AdminToken: "secret", AdminAddr: "127.0.0.1:1"}, out) }, "warning"},
		"open admin":    {func(out *checks) { judgeAdmin(Config{AdminToken: longText, AdminAddr: ":8081"}, out) }, "note"},
		"no token":      {func(out *checks) { judgeAdmin(Config{AdminAddr: ":8081"}, out) }, ""},
		"no auth":       {func(out *checks) { judgeAuth(Config{}, out) }, ""},
		"trust all":     {func(out *checks) { judgeAuth(trusting("10.0.0.0/8", "0.0.0.0/0"), out) }, "serious"},
		"trust public":  {func(out *checks) { judgeAuth(trusting("9.0.0.0/8"), out) }, "serious"},
		"trust private": {func(out *checks) { judgeAuth(trusting("127.0.0.0/8", "10.1.0.0/16", "9.1.2.3/32"), out) }, ""},
		"weak key":      {func(out *checks) { judgeAuth(Config{AuthMode: authJWT, AuthJWTSecret: "x"}, out) }, "warning"},
		"any issuer":    {func(out *checks) { judgeAuth(Config{AuthMode: authJWT, AuthJWTSecret: longText}, out) }, "note"},
		"known audience": {func(out *checks) {
			judgeAuth(Config{AuthMode: authJWT, AuthJWTSecret: longText, AuthJWTAudience: "a"}, out)
		}, ""},
	}
	addStores(all)
	addLogs(all)
	return all
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const longText = "0123456789abcdef0123456789abcdef"

func trusting(prefixes ...string) Config {
	c := Config{AuthMode: authHeader}
	for _, p := range prefixes {
		c.AuthTrustedProxies = append(c.AuthTrustedProxies, netip.MustParsePrefix(p))
	}
	return c
}

func addStores(all map[string]judgement) {
	postgres := func(change func(*postgresServer)) func(*checks) {
		s := postgresServer{Version: 170000, Fsync: "on", FullPages: "on", Commit: "on", Idle: 2000, Statement: 5000, Room: 97}
		change(&s)
		return func(out *checks) {
			judgePostgres(out, s)
			judgePostgresDurability(out, s)
			judgePostgresLimits(out, s, 32)
		}
	}
	for name, j := range map[string]struct {
		change func(*postgresServer)
		want   string
	}{
		"Postgres":                {func(*postgresServer) {}, ""},
		"old Postgres":            {func(s *postgresServer) { s.Version = 140009 }, "warning"},
		"standby":                 {func(s *postgresServer) { s.Standby = true }, "serious"},
		"read-only":               {func(s *postgresServer) { s.ReadOnly = true }, "serious"},
		"no fsync, no full pages": {func(s *postgresServer) { s.Fsync, s.FullPages = "off", "off" }, "serious serious"},
		"commit off, unlogged":    {func(s *postgresServer) { s.Commit, s.Unlogged = "off", "orders" }, "serious serious"},
		"commit local":            {func(s *postgresServer) { s.Commit, s.SyncStandby = "local", "ANY 1 (b)" }, "warning"},
		"standbys behind":         {func(s *postgresServer) { s.Standbys = 1 }, "warning"},
		"pooler":                  {func(s *postgresServer) { s.Idle = 0 }, "warning"},
		"no statement limit":      {func(s *postgresServer) { s.Statement = 0 }, "warning"},
		"room for none":           {func(s *postgresServer) { s.Room = 20 }, "warning"},
		"room for one":            {func(s *postgresServer) { s.Room = 40 }, "note"},
	} {
		all[name] = judgement{postgres(j.change), j.want}
	}
	redis := func(name, want string, addresses int, changed ...string) {
		n := redisNode{
			"redis_version": "7.2.5", "role": "master", "cluster_enabled": "0", "aof_enabled": "1", "appendfsync": "everysec",
			"aof_last_write_status": "ok", "maxmemory_policy": "noeviction", "maxmemory": "0", "used_memory": "90",
			"lazyfree-lazy-expire": "yes",
		}
		for i := 0; i < len(changed); i += 2 {
			n[changed[i]] = changed[i+1]
		}
		all[name] = judgement{func(out *checks) {
			judgeRedis(out, n, addresses, "")
			judgeRedisPersistence(out, n, "")
			judgeRedisMemory(out, n, "")
			judgeRedisExpiry(out, n, "")
		}, want}
	}
	redis("Redis", "", 1)
	redis("Redis Cluster", "", 3, "cluster_enabled", "1")
	redis("old Redis", "warning", 1, "redis_version", "6.2.14")
	redis("replica", "serious", 1, "role", "slave")
	redis("cluster, one address", "serious", 1, "cluster_enabled", "1")
	redis("no AOF", "warning", 1, "aof_enabled", "0")
	redis("AOF not synced, paused", "warning note", 1, "appendfsync", "no", "no-appendfsync-on-rewrite", "yes")
	redis("AOF unseen", "", 1, "appendfsync", "")
	redis("save failed", "serious", 1, "aof_last_write_status", "err", "rdb_last_bgsave_status", "err")
	redis("eviction", "serious", 1, "maxmemory_policy", "allkeys-lru", "maxmemory", "100")
	redis("eviction later", "note", 1, "maxmemory_policy", "volatile-lru")
	redis("expiry in one go", "note", 1, "lazyfree-lazy-expire", "no")
	redis("expiry unseen", "", 1, "lazyfree-lazy-expire", "")
	redis("nearly full", "warning", 1, "maxmemory", "100")
}

func addLogs(all map[string]judgement) {
	c := Config{Namespace: "ns", LogReplicas: 1, LogAckWait: 15 * time.Second, LockTTL: 10 * time.Second}
	stream := func(name, want string, change func(*jetstream.StreamConfig)) {
		s := jetstream.StreamConfig{
			Name: "NS_ORDERS", Subjects: []string{"ns.orders.>"}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			Discard: jetstream.DiscardNew, Replicas: 1, MaxBytes: 1 << 30, MaxAge: 168 * time.Hour, Duplicates: 2 * time.Minute,
			MaxMsgSize: -1, MaxMsgsPerSubject: -1,
		}
		change(&s)
		all[name] = judgement{func(out *checks) { judgeStream(out, c, s) }, want}
	}
	stream("log", "", func(*jetstream.StreamConfig) {})
	stream("log in memory, dropping", "serious serious", func(s *jetstream.StreamConfig) {
		s.Storage, s.Discard = jetstream.MemoryStorage, jetstream.DiscardOld
	})
	stream("log as a queue, async", "serious serious", func(s *jetstream.StreamConfig) {
		s.Retention, s.PersistMode = jetstream.WorkQueuePolicy, jetstream.AsyncPersistMode
	})
	stream("log without acks, few messages, small ones", "serious serious serious", func(s *jetstream.StreamConfig) {
		s.NoAck, s.MaxMsgsPerSubject, s.MaxMsgSize = true, 100, 1000
	})
	stream("log of others", "serious", func(s *jetstream.StreamConfig) { s.Subjects = []string{"x.>"} })
	stream("log unlimited, short", "note warning warning", func(s *jetstream.StreamConfig) { s.MaxBytes, s.MaxAge, s.Duplicates = -1, time.Hour, time.Second })
	stream("log with no replicas", "serious", func(s *jetstream.StreamConfig) { s.Replicas = 0 })

	deliver := func(name, want string, change func(*jetstream.ConsumerConfig)) {
		config := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.LogAckWait, MaxDeliver: -1, FilterSubject: "ns.orders.0.>"}
		change(&config)
		all[name] = judgement{func(out *checks) {
			for _, f := range flaws(c, config, "ns.orders.0.>") {
				out.finding(f.severity, "consumers", f.found, f.breaks, f.mend)
			}
		}, want}
	}
	deliver("consumer", "", func(*jetstream.ConsumerConfig) {})
	deliver("consumer without acks, once", "serious serious", func(s *jetstream.ConsumerConfig) { s.AckPolicy, s.MaxDeliver = jetstream.AckNonePolicy, 1 })
	deliver("consumer from now, of others", "serious serious", func(s *jetstream.ConsumerConfig) {
		s.DeliverPolicy, s.FilterSubject = jetstream.DeliverNewPolicy, "x.>"
	})
	deliver("consumer with pauses", "warning note", func(s *jetstream.ConsumerConfig) {
		s.BackOff, s.InactiveThreshold = []time.Duration{time.Second}, time.Minute
	})
	deliver("consumer in a hurry", "note warning", func(s *jetstream.ConsumerConfig) { s.AckWait = 5 * time.Second })
}
