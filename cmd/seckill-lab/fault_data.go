package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"seckill/deploy/stack"
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

// olderCopy kills Redis and starts it on a copy of its data from earlier in the sale.
func olderCopy() fault {
	var now int64
	return fault{
		about: "Redis killed and started on an older copy of its data", lasts: 200 * time.Millisecond,
		ready: func(ctx context.Context, f *field) (err error) {
			if f.oldRecords, err = f.records(ctx); err != nil {
				return err
			}
			return copyPlain(f.redisFolder(), f.redisFolder()+".older")
		},
		strike: func(ctx context.Context, f *field) (_ string, err error) {
			if now, err = f.records(ctx); err != nil {
				return "", err
			}
			if err := f.servers.Kill(stack.Redis); err != nil {
				return "", err
			}
			return "", errors.Join(os.RemoveAll(f.redisFolder()), os.Rename(f.redisFolder()+".older", f.redisFolder()))
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			if err := f.servers.Start(ctx, stack.Redis); err != nil {
				return "", err
			}
			return f.proveOlder(ctx, now)
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

func (f *field) redisFolder() string { return filepath.Join(f.servers.Dir(), stack.Redis) }

func (f *field) records(ctx context.Context) (int64, error) {
	client := f.redis()
	defer client.Close()
	n, err := client.HLen(ctx, f.gateKey(saleActivity, "orders")).Result()
	if err != nil {
		return 0, fmt.Errorf("count the gate's records: %w", err)
	}
	return n, nil
}

func (f *field) proveOlder(ctx context.Context, before int64) (string, error) {
	n, err := f.records(ctx)
	if err != nil {
		return "", err
	}
	if n >= before {
		return "", fmt.Errorf("the older copy is not proven: %d records when Redis was killed, %d after its start", before, n)
	}
	return fmt.Sprintf("records of the gate %d -> %d", before, n), nil
}

// copyPlain copies a folder of folders and plain files while its owner goes on writing.
func copyPlain(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("remove the last copy: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// consumerDeleted removes the durable consumer of the sale's partition.
func consumerDeleted() fault {
	var name string
	return fault{
		about: "the durable consumer that settles the sale is deleted", lasts: 100 * time.Millisecond,
		strike: func(ctx context.Context, f *field) (string, error) {
			return "", f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				for info := range s.ListConsumers(ctx).Info() {
					if info.Delivered.Consumer > 0 && info.NumAckPending+int(info.NumPending) > 0 {
						name, f.created = info.Name, info.Created
						return s.DeleteConsumer(ctx, name)
					}
				}
				return errors.New("no consumer has work in hand")
			})
		},
		heal: func(ctx context.Context, f *field) (proof string, err error) {
			err = f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				c, err := s.Consumer(ctx, name)
				switch {
				case errors.Is(err, jetstream.ErrConsumerNotFound):
					proof = name + " is gone"
				case err != nil:
					return err
				case c.CachedInfo().Created.Equal(f.created):
					return fmt.Errorf("%s is not proven to have been deleted", name)
				default:
					proof = fmt.Sprintf("%s was made anew %v later", name, c.CachedInfo().Created.Sub(f.created).Round(time.Millisecond))
				}
				return nil
			})
			return proof, err
		},
	}
}

// streamDeleted removes the whole order log.
func streamDeleted() fault {
	return fault{
		about: "the stream of the order log is deleted", lasts: 100 * time.Millisecond,
		strike: func(ctx context.Context, f *field) (proof string, err error) {
			err = f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				f.created = s.CachedInfo().Created
				proof = fmt.Sprintf("%d messages deleted", s.CachedInfo().State.Msgs)
				nc, err := f.nats()
				if err != nil {
					return err
				}
				defer nc.Close()
				js, err := jetstream.New(nc)
				if err != nil {
					return err
				}
				return js.DeleteStream(ctx, f.stream())
			})
			return proof, err
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			err := f.onStream(ctx, func(_ context.Context, s jetstream.Stream) error {
				if s.CachedInfo().Created.Equal(f.created) {
					return errors.New("it is not proven to have been deleted")
				}
				return nil
			})
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				err = nil
			}
			return "", err
		},
	}
}

// onStream does something with the order log, past the service.
func (f *field) onStream(ctx context.Context, do func(context.Context, jetstream.Stream) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	nc, err := f.nats()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	stream, err := js.Stream(ctx, f.stream())
	if err == nil {
		err = do(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", f.stream(), err)
	}
	return nil
}
