package consumer

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// idleInTransaction ends a transaction whose client does not go on, so that a
// paused worker holds up its successor no longer than this.
const idleInTransaction = 2 * time.Second

// OpenPool connects to Postgres, with the schema of the namespace as search path.
// It does not wait for the server; the first use does. size is the most
// connections; 0 takes the library's default.
func OpenPool(ctx context.Context, url, namespace string, size int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the Postgres URL: %w", err)
	}
	if size > 0 {
		c.MaxConns = size
	}
	p := c.ConnConfig.RuntimeParams
	p["search_path"] = namespace
	p["application_name"] = "seckill " + namespace
	p["timezone"] = "UTC"
	// A plan that was made and kept while the tables were empty is no plan for a sale.
	p["plan_cache_mode"] = "force_custom_plan"
	p["idle_in_transaction_session_timeout"] = fmt.Sprint(idleInTransaction.Milliseconds())
	p["statement_timeout"] = fmt.Sprint(settleTimeout.Milliseconds())
	p["lock_timeout"] = fmt.Sprint((settleTimeout - time.Second).Milliseconds())
	c.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open the Postgres pool: %w", err)
	}
	return pool, nil
}

// Migrate creates the schema of the namespace or brings it to this release. Several
// processes may call it at once. It returns how many migrations it applied.
func Migrate(ctx context.Context, pool *pgxpool.Pool, namespace string) (int, error) {
	if err := createSchema(ctx, pool, namespace); err != nil {
		return 0, fmt.Errorf("create schema %s: %w", namespace, err)
	}
	p, done, err := migrator(pool, namespace)
	if err != nil {
		return 0, fmt.Errorf("migrate schema %s: %w", namespace, err)
	}
	defer done()
	results, err := p.Up(ctx)
	if err != nil {
		return 0, fmt.Errorf("migrate schema %s: %w", namespace, err)
	}
	return len(results), nil
}

// createSchema lets one of several processes go first: "if not exists" alone does
// not keep two from colliding.
func createSchema(ctx context.Context, pool *pgxpool.Pool, namespace string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext($1))", "seckill schema "+namespace); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "create schema if not exists "+pgx.Identifier{namespace}.Sanitize())
		return err
	})
}

func migrator(pool *pgxpool.Pool, namespace string) (*goose.Provider, func(), error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, nil, err
	}
	store, err := database.NewStore(database.DialectPostgres, namespace+".goose_db_version")
	if err != nil {
		return nil, nil, err
	}
	files, err := fs.Sub(migrations, "schema")
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	p, err := goose.NewProvider("", db, files, goose.WithStore(store), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return p, func() { _ = db.Close() }, nil
}
