package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"seckill/deploy/stack"
)

// olderCopy kills a server and starts it on a copy of its data from earlier in the sale, as after a restored backup
// or a failover to a replica that was behind. The copy is taken while the server stands still, so it is what a
// crash would have left at that moment.
func olderCopy(server string) fault {
	var then, before int64
	return fault{
		about: server + " killed and started on an older copy of its data", lasts: 200 * time.Millisecond,
		ready: func(ctx context.Context, f *field) (err error) {
			if then, err = f.beyond(ctx, server, 0); err != nil {
				return err
			}
			if err := f.servers.Pause(server); err != nil {
				return err
			}
			if err := errors.Join(f.copyData(ctx, server), f.servers.Resume(server)); err != nil {
				return err
			}
			if server == stack.Etcd { // writes only when leases change hands
				if err := f.kill("worker-2"); err != nil {
					return err
				}
				if err := f.start(ctx, "worker-2"); err != nil {
					return err
				}
			}
			_, err = f.beyond(ctx, server, then)
			return err
		},
		strike: func(ctx context.Context, f *field) (_ string, err error) {
			if before, err = f.progress(ctx, server); err != nil {
				return "", err
			}
			if err := f.servers.Kill(server); err != nil {
				return "", err
			}
			return "", f.swapData(server)
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			if err := f.servers.Start(ctx, server); err != nil {
				return "", err
			}
			return f.proveOlder(ctx, server, then, before)
		},
	}
}

// dataFolder is what a server keeps, wherever the stack has put it.
func (f *field) dataFolder(server string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(f.servers.Dir(), server))
	if err != nil {
		return "", fmt.Errorf("find the data of %s: %w", server, err)
	}
	if server == stack.Postgres {
		dir = filepath.Join(dir, "data")
	}
	return dir, nil
}

// copyData keeps owners and permissions, which Postgres checks.
func (f *field) copyData(ctx context.Context, server string) error {
	dir, err := f.dataFolder(server)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir + ".older"); err != nil {
		return fmt.Errorf("remove the last copy: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", "--", dir, dir+".older").CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data of %s: %w: %s", server, err, out)
	}
	return nil
}

func (f *field) swapData(server string) error {
	dir, err := f.dataFolder(server)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".older", dir)); err != nil {
		return fmt.Errorf("put the older copy of %s in place: %w", server, err)
	}
	return nil
}

// proveOlder wants the server to be behind where it was; it may have gone on a little since its start.
func (f *field) proveOlder(ctx context.Context, server string, then, before int64) (string, error) {
	now, err := f.progress(ctx, server)
	if err != nil {
		return "", err
	}
	if now >= before {
		return "", fmt.Errorf("the older copy of %s is not proven: %s were %d when it was killed, %d after its start",
			server, progressOf[server], before, now)
	}
	return fmt.Sprintf("%s %d, then %d, after the start %d", progressOf[server], then, before, now), nil
}

// beyond waits until a server's number has risen above n.
func (f *field) beyond(ctx context.Context, server string, n int64) (int64, error) {
	for {
		now, err := f.progress(ctx, server)
		if err != nil || now > n {
			return now, err
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return now, fmt.Errorf("wait until %s are more than %d: %w", progressOf[server], n, err)
		}
	}
}

// progressOf names the number that rises in each server as the sale goes on.
var progressOf = map[string]string{
	stack.Redis: "records of the gate", stack.Postgres: "rows of orders", stack.NATS: "messages in the log", stack.Etcd: "revision",
}

func (f *field) progress(ctx context.Context, server string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	switch server {
	case stack.Redis:
		return f.records(ctx)
	case stack.Postgres:
		db, err := f.ledger(ctx)
		if err != nil {
			return 0, err
		}
		defer db.Close(context.WithoutCancel(ctx))
		err = db.QueryRow(ctx, `select count(*) from `+f.table("orders")).Scan(&n)
		return n, err
	case stack.NATS:
		err := f.onStream(ctx, func(_ context.Context, s jetstream.Stream) error {
			n = int64(s.CachedInfo().State.LastSeq)
			return nil
		})
		return n, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{f.servers.EtcdEndpoint()}, DialTimeout: storeCall, Context: ctx, Logger: zap.NewNop(),
	})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	answer, err := client.Get(ctx, "seckill-lab")
	if err != nil {
		return 0, fmt.Errorf("read the revision of etcd: %w", err)
	}
	return answer.Header.Revision, nil
}
