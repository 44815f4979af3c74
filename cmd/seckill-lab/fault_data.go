package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// scriptsFlushed forgets every script that Redis had loaded; the proof is read in the same transaction.
func scriptsFlushed() fault {
	return fault{
		about: "SCRIPT FLUSH",
		strike: func(ctx context.Context, f *field) (string, error) {
			client := f.redis()
			defer client.Close()
			before, err := cachedScripts(client.Info(ctx, "memory"))
			if err != nil || before == 0 {
				return "", fmt.Errorf("SCRIPT FLUSH would prove nothing: %d scripts are loaded (%v)", before, err)
			}
			tx := client.TxPipeline()
			tx.ScriptFlush(ctx)
			info := tx.Info(ctx, "memory")
			if _, err := tx.Exec(ctx); err != nil {
				return "", fmt.Errorf("flush the scripts: %w", err)
			}
			after, err := cachedScripts(info)
			if err != nil || after != 0 {
				return "", fmt.Errorf("SCRIPT FLUSH is not proven: %d scripts are left (%v)", after, err)
			}
			return fmt.Sprintf("loaded scripts %d -> 0", before), nil
		},
	}
}

func cachedScripts(info *redis.StringCmd) (int, error) {
	text, err := info.Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "number_of_cached_scripts:")
	digits, _, _ := strings.Cut(rest, "\r")
	return strconv.Atoi(digits)
}

// flushed wipes Redis.
func flushed() fault {
	return fault{
		about: "FLUSHALL",
		strike: func(ctx context.Context, f *field) (string, error) {
			client := f.redis()
			defer client.Close()
			tx := client.TxPipeline()
			before := tx.DBSize(ctx)
			tx.FlushAll(ctx)
			after := tx.DBSize(ctx)
			if _, err := tx.Exec(ctx); err != nil {
				return "", fmt.Errorf("wipe Redis: %w", err)
			}
			if before.Val() == 0 || after.Val() != 0 {
				return "", fmt.Errorf("FLUSHALL is not proven: %d keys before, %d after", before.Val(), after.Val())
			}
			return fmt.Sprintf("keys %d -> 0", before.Val()), nil
		},
	}
}

// rolledBack puts the gate's keys back to what they were, under a Redis that is otherwise the same, so that its
// identity tells nothing.
func rolledBack() fault {
	return fault{
		about: "the gate's keys are set back to an earlier state, unnoticed by Redis' identity",
		ready: func(ctx context.Context, f *field) error {
			client := f.redis()
			defer client.Close()
			f.oldKeys = map[string]string{}
			for _, name := range gateKeys {
				dump, err := client.Dump(ctx, f.gateKey(saleActivity, name)).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					return fmt.Errorf("dump the gate's %s: %w", name, err)
				}
				f.oldKeys[name] = dump
			}
			var err error
			f.oldRecords, err = f.records(ctx)
			return err
		},
		strike: func(ctx context.Context, f *field) (string, error) {
			now, err := f.records(ctx)
			if err != nil {
				return "", err
			}
			client := f.redis()
			defer client.Close()
			tx := client.TxPipeline()
			for _, name := range gateKeys {
				tx.Del(ctx, f.gateKey(saleActivity, name))
				if dump := f.oldKeys[name]; dump != "" {
					tx.Restore(ctx, f.gateKey(saleActivity, name), 0, dump)
				}
			}
			left := tx.HLen(ctx, f.gateKey(saleActivity, "orders"))
			if _, err := tx.Exec(ctx); err != nil {
				return "", fmt.Errorf("set the gate back: %w", err)
			}
			if left.Val() >= now {
				return "", fmt.Errorf("the gate is not proven to be set back: %d records before, %d after", now, left.Val())
			}
			return fmt.Sprintf("records of the gate %d -> %d", now, left.Val()), nil
		},
	}
}

var gateKeys = []string{"gate", "stock", "orders", "buyers", "keys", "pending"}

// records counts the gate's records of orders.
func (f *field) records(ctx context.Context) (int64, error) {
	client := f.redis()
	defer client.Close()
	n, err := client.HLen(ctx, f.gateKey(saleActivity, "orders")).Result()
	if err != nil {
		return 0, fmt.Errorf("count the gate's records: %w", err)
	}
	return n, nil
}
