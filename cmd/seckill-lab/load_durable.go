package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// durability is what the servers say of what they keep when they answer. "?" is what nobody could be asked.
type durability struct {
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	SyncInterval      string `json:"sync_interval"` // of the order log; "always"
}

// readDurability asks Postgres and NATS, as far as their addresses are known.
func readDurability(ctx context.Context, postgresURL, monitorURL string) (d durability, err error) {
	d = durability{"?", "?", "?"}
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	if postgresURL != "" {
		db, err := pgx.Connect(ctx, postgresURL)
		if err != nil {
			return d, fmt.Errorf("ask Postgres for its settings: %w", err)
		}
		defer db.Close(context.WithoutCancel(ctx))
		err = db.QueryRow(ctx, `select current_setting('fsync'), current_setting('synchronous_commit')`).
			Scan(&d.Fsync, &d.SynchronousCommit)
		if err != nil {
			return d, fmt.Errorf("ask Postgres for its settings: %w", err)
		}
	}
	if monitorURL != "" {
		if d.SyncInterval, err = readSync(ctx, monitorURL); err != nil {
			return d, fmt.Errorf("ask NATS when it syncs: %w", err)
		}
	}
	return d, nil
}

func readSync(ctx context.Context, monitorURL string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(monitorURL, "/")+"/varz", http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var said struct {
		JetStream struct {
			Config *struct {
				SyncInterval time.Duration `json:"sync_interval"`
				SyncAlways   bool          `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		return "", err
	}
	config := said.JetStream.Config
	switch {
	case config == nil:
		return "?", nil
	case config.SyncAlways:
		return "always", nil
	}
	return config.SyncInterval.String(), nil
}
