package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"seckill/consumer"
)

// longestIdle is how long an open transaction of a paused worker may hold up its
// successor.
const longestIdle = 2 * time.Second

// postgresServer is what Postgres tells of itself, as it is in force for our sessions.
type postgresServer struct {
	Version                               int
	Name                                  string
	Standby, ReadOnly                     bool
	Fsync, FullPages, Commit, SyncStandby string
	Idle, Statement                       int64 // milliseconds; 0: no limit
	Room, InUse                           int   // connections
	Standbys                              int
	Unlogged                              string
}

const sqlPostgresServer = `
select current_setting('server_version_num')::int, current_setting('server_version'),
       pg_is_in_recovery(), current_setting('transaction_read_only')::bool,
       current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
       (select setting::bigint from pg_settings where name = 'idle_in_transaction_session_timeout'),
       (select setting::bigint from pg_settings where name = 'statement_timeout'),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true), '0')::int,
       (select count(*) from pg_stat_activity where backend_type = 'client backend'),
       (select count(*) from pg_stat_replication),
       coalesce((select string_agg(c.relname, ', ' order by c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where n.nspname = $1 and c.relkind = 'r' and c.relpersistence = 'u'), '')`

func lookAtPostgres(ctx context.Context, c Config, out *checks, clocks *clockReadings) {
	var s postgresServer
	pool, err := consumer.OpenPool(ctx, c.postgresURL(), c.Namespace, 1)
	if err == nil {
		defer pool.Close()
		err = pool.QueryRow(ctx, sqlPostgresServer, c.Namespace).Scan(&s.Version, &s.Name, &s.Standby, &s.ReadOnly,
			&s.Fsync, &s.FullPages, &s.Commit, &s.SyncStandby, &s.Idle, &s.Statement, &s.Room, &s.InUse, &s.Standbys, &s.Unlogged)
	}
	if err != nil {
		out.away(err, "orders stay accepted and are not settled; new sales cannot begin", "SECKILL_POSTGRES_URL")
		return
	}
	out.reached = true
	out.ok("reachable", "it answers")
	judgePostgres(out, s)
	judgePostgresDurability(out, s)
	judgePostgresLimits(out, s, int(poolSize(c)))
	judgeInstallation(ctx, c, pool, out)
	clocks.read("Postgres", func() (at int64, err error) {
		var now time.Time
		err = pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&now)
		return now.UnixMicro(), err
	})
}

func judgePostgres(out *checks, s postgresServer) {
	if s.Version < 150000 {
		out.finding(warning, "version", "Postgres "+s.Name, "the schema is written for and tested on 15 and later", "Postgres 15 or later")
	} else {
		out.ok("version", "%s", s.Name)
	}
	switch {
	case s.Standby:
		out.finding(serious, "writable", "it is a standby", "orders stay accepted and are not settled", "SECKILL_POSTGRES_URL of the primary, or target_session_attrs=read-write in it")
	case s.ReadOnly:
		out.finding(serious, "writable", "transactions are read-only", "orders stay accepted and are not settled", "alter role or alter database … set default_transaction_read_only = off")
	default:
		out.ok("writable", "a primary that takes writes")
	}
}

func judgePostgresDurability(out *checks, s postgresServer) {
	found := len(out.list)
	lasting := func(bad bool, what, breaks, mend string) {
		if bad {
			out.finding(serious, "commits on disk", what, breaks, mend).lasting()
		}
	}
	lasting(s.Fsync != "on", "fsync is "+s.Fsync, "G1, G3, G5: a power cut can lose or damage any of the ledger", "fsync = on in postgresql.conf, and a restart")
	lasting(s.FullPages != "on", "full_page_writes is "+s.FullPages, "G1, G3: a power cut can damage pages of the ledger", "full_page_writes = on in postgresql.conf, and a reload")
	lasting(s.Commit == "off", "synchronous_commit is off", "G3, G5: a crash forgets the last decisions, which buyers were told",
		"synchronous_commit = on in postgresql.conf, and no other value for the role or database")
	lasting(s.Unlogged != "", "tables are unlogged: "+s.Unlogged, "G1, G3: they are emptied after a crash", "alter table … set logged for each")
	switch {
	case s.SyncStandby != "" && s.Commit == "local":
		out.finding(warning, "commits on disk", "synchronous_commit is local, although there are synchronous standbys", "G3: after a failover the last decisions are forgotten; the log is settled again",
			"synchronous_commit = on")
	case s.SyncStandby == "" && s.Standbys > 0:
		out.finding(warning, "commits on disk", fmt.Sprintf("%d standbys, none of them synchronous", s.Standbys),
			"G3: after a failover the last decisions are forgotten; the log is settled again, perhaps with other outcomes than buyers were told", "synchronous_standby_names = 'ANY 1 (…)' in postgresql.conf")
	}
	if len(out.list) == found {
		out.ok("commits on disk", "fsync, full_page_writes on, synchronous_commit %s", s.Commit)
	}
}

func judgePostgresLimits(out *checks, s postgresServer, pool int) {
	if s.Idle == 0 || s.Idle > longestIdle.Milliseconds() {
		out.finding(warning, "time limits", fmt.Sprintf("idle_in_transaction_session_timeout is %d ms in our sessions (0: none), although they ask for %d", s.Idle, longestIdle.Milliseconds()),
			"a paused worker's open transaction holds up its successor (G6 holds)",
			"alter role … set idle_in_transaction_session_timeout = '2s'; or a pooler that passes start-up parameters on")
	} else if s.Statement == 0 {
		out.finding(warning, "time limits", "statement_timeout has no effect in our sessions", "a stuck statement holds up a partition", "a pooler that passes start-up parameters on")
	} else {
		out.ok("time limits", "idle in transaction %d ms, statement %d ms", s.Idle, s.Statement)
	}
	what := fmt.Sprintf("max_connections leaves %d, %d are in use, and one process takes up to %d", s.Room, s.InUse, pool)
	switch n := s.Room / pool; {
	case n < 1:
		out.finding(warning, "connections", what, "503 overloaded, and slow settlement, at the busiest moment", fmt.Sprintf("max_connections = %d or more in postgresql.conf, and a restart", 3*pool))
	case n < 2:
		out.finding(note, "connections", what, "nothing yet: a second process would not get all of its own", fmt.Sprintf("max_connections = %d or more in postgresql.conf, and a restart", 3*pool))
	default:
		out.ok("connections", "%s: room for %d processes", what, n)
	}
}

// judgeInstallation compares what the ledger records with this configuration.
func judgeInstallation(ctx context.Context, c Config, pool *pgxpool.Pool, out *checks) {
	const check = "recorded setup"
	recorded, err := consumer.NewLedger(pool).Installation(ctx)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, consumer.ErrNotInstalled), errors.As(err, &pg) && pg.Code == "42P01":
		out.unknown(check, "the ledger records none yet", "start seckill serve once, then ask again")
	case err != nil:
		out.unknown(check, "it cannot be read: "+oneLine(err.Error()), "a Postgres role that may read schema "+c.Namespace)
	case recorded.LockBackend != c.LockBackend:
		out.finding(serious, check, "leases are recorded in "+recorded.LockBackend+", and "+c.LockBackend+" is configured", "processes with this configuration refuse to start",
			"SECKILL_LOCK_BACKEND="+recorded.LockBackend+", or seckill lock switch --to "+c.LockBackend)
	case recorded.Partitions != c.Partitions:
		out.finding(serious, check, fmt.Sprintf("%d partitions are recorded, and %d configured", recorded.Partitions, c.Partitions), "processes with this configuration refuse to start",
			fmt.Sprintf("SECKILL_PARTITIONS=%d", recorded.Partitions))
	default:
		out.ok(check, "leases in %s, %d partitions", recorded.LockBackend, recorded.Partitions)
	}
}
