// Command bench measures lockprovider beside other lock libraries: redsync and
// rueidislock on Redis, concurrency.Mutex on etcd. All use the same servers in one run,
// take turns in random order, and the tables show medians. It is a module of its own, so
// that the libraries it compares with are no dependencies of the product.
//
// It starts the servers itself and writes Markdown:
//
//	make bench-locks
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/deploy/stack"
)

// plan is how much is measured.
type plan struct {
	rounds   int // of the uncontended measurement, each contender once a round
	cycles   int // acquire and release, in a round
	handoffs int // from one process to another
	releases int // with 200 waiters
	locks    int
	watched  time.Duration // while the locks are held
}

var (
	full  = plan{rounds: 60, cycles: 50, handoffs: 150, releases: 40, locks: 1000, watched: 30 * time.Second}
	brief = plan{rounds: 6, cycles: 20, handoffs: 12, releases: 10, locks: 1000, watched: 8 * time.Second}
)

func main() {
	if childMain() {
		return
	}
	out := flag.String("out", "", "`file` for the tables; empty: standard output")
	lab := flag.String("lab", "../../bin/seckill-lab", "`path` of seckill-lab, which runs etcd")
	short := flag.Bool("short", false, "a tenth of the work, for a first look")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := full
	if *short {
		p = brief
	}
	if err := run(ctx, p, *lab, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p plan, lab, out string) (err error) {
	redis.SetLogger(silent{})
	dir, err := os.MkdirTemp("", "seckill-bench-")
	if err != nil {
		return err
	}
	s, err := stack.Open(ctx, stack.Config{Dir: dir, Lab: lab, Scratch: true})
	if err != nil {
		return fmt.Errorf("start the servers: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	at := servers{Redis: s.Address(stack.Redis), Etcd: s.Address(stack.Etcd)}
	on := machine(ctx)
	r, err := measure(ctx, p, at)
	if err != nil {
		return err
	}
	r.on = on
	if out == "" {
		fmt.Print(r.markdown(p))
		return nil
	}
	return os.WriteFile(out, []byte(r.markdown(p)), 0o644)
}

// results are all tables of a run.
type results struct {
	on          string // see machine
	uncontended []spread
	handoff     []spread
	crowd       []crowdResult
	renewal     []renewalResult
}

func measure(ctx context.Context, p plan, at servers) (r results, err error) {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"uncontended", func() (err error) { r.uncontended, err = uncontended(ctx, p, at); return err }},
		{"hand-off", func() (err error) { r.handoff, err = handoff(ctx, p, at); return err }},
		{"200 waiters", func() (err error) { r.crowd, err = crowd(ctx, p, at); return err }},
		{"held locks", func() (err error) { r.renewal, err = renewals(ctx, p, at); return err }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return r, fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s done in %v\n", step.what, time.Since(began).Round(time.Second))
	}
	return r, nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
