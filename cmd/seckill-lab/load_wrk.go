package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// The sender must not be the bottleneck of what it measures: against a handler that does nothing it has to reach
// this part of the rate of wrk, on the same cores in the same minutes.
const leastOfWrk = 0.9

func compareNoop(ctx context.Context, out io.Writer, o noopOptions) error {
	if o.rounds < 1 || o.each < time.Second {
		return fmt.Errorf("noop: --rounds %d --each %v: at least 1 and 1s", o.rounds, o.each)
	}
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return fmt.Errorf("noop: find wrk: %w; install it (Debian: apt-get install wrk)", err)
	}
	target, stop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer stop()
	_, _, err = senderRounds(ctx, out, wrk, target, o)
	return err
}

// errVoid says that the sender is the bottleneck.
var errVoid = errors.New("figures measured meanwhile are void: repeat on a quiet machine")

// senderRounds lets both senders take turns and returns their medians; errVoid if ours is too slow.
func senderRounds(ctx context.Context, out io.Writer, wrk, target string, o noopOptions) (their, our noopRun, err error) {
	fmt.Fprintf(out, "POST, %d connections, %v each, in turns; µs of CPU that the sender took for a request\n"+
		"%8s %10s %10s %7s %12s %12s\n", o.connections, o.each, "round", "wrk/s", "engine/s", "ratio", "wrk µs", "engine µs")
	var theirs, ours []noopRun
	for round := 1; round <= o.rounds; round++ {
		if their, err = runWrk(ctx, wrk, target, o); err != nil {
			return their, our, err
		}
		if our, err = runNoopLoad(ctx, target, o); err != nil {
			return their, our, err
		}
		theirs, ours = append(theirs, their), append(ours, our)
		printNoop(out, strconv.Itoa(round), their, our)
	}
	their, our = medianRun(theirs), medianRun(ours)
	printNoop(out, "median", their, our)
	if our.rate < leastOfWrk*their.rate {
		return their, our, fmt.Errorf("noop: the engine reached %.2f of wrk, less than %.1f: %w", our.rate/their.rate, leastOfWrk, errVoid)
	}
	return their, our, nil
}

// noopRun is one run of one sender.
type noopRun struct {
	rate float64 // requests/s
	cpu  float64 // µs of CPU a request; unlike the rate it hardly depends on what else runs on the machine
}

func printNoop(out io.Writer, name string, their, our noopRun) {
	fmt.Fprintf(out, "%8s %10.0f %10.0f %7.2f %12.1f %12.1f\n",
		name, their.rate, our.rate, our.rate/their.rate, their.cpu, our.cpu)
}

func medianRun(runs []noopRun) noopRun {
	middle := func(value func(noopRun) float64) float64 {
		values := make([]float64, len(runs))
		for i, run := range runs {
			values[i] = value(run)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return noopRun{
		rate: middle(func(r noopRun) float64 { return r.rate }),
		cpu:  middle(func(r noopRun) float64 { return r.cpu }),
	}
}

var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkCount = regexp.MustCompile(`([0-9]+) requests in`)
)

func runWrk(ctx context.Context, wrk, target string, o noopOptions) (noopRun, error) {
	dir, err := os.MkdirTemp("", "seckill-lab-noop-")
	if err != nil {
		return noopRun{}, fmt.Errorf("noop: %w", err)
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "post.lua")
	lua := fmt.Sprintf("wrk.method = \"POST\"\nwrk.body = '%s'\n"+
		"wrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.headers[\"X-User-ID\"] = \"%s\"\n", noopBody, noopBuyer)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return noopRun{}, fmt.Errorf("noop: %w", err)
	}
	cmd := exec.CommandContext(ctx, wrk, "-t2", "-c", strconv.Itoa(o.connections),
		"-d", strconv.Itoa(int(o.each.Seconds()))+"s", "-s", script, target+noopPath)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return noopRun{}, fmt.Errorf("noop: run wrk: %w: %s", err, said)
	}
	rate, requests := wrkRate.FindSubmatch(said), wrkCount.FindSubmatch(said)
	if rate == nil || requests == nil {
		return noopRun{}, fmt.Errorf("noop: find rate and count in what wrk said: %s", said)
	}
	perSecond, _ := strconv.ParseFloat(string(rate[1]), 64)
	sent, _ := strconv.ParseFloat(string(requests[1]), 64)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return noopRun{perSecond, float64(cpu.Microseconds()) / sent}, nil
}

// runNoopLoad sends as fast as the connections allow, for as long as wrk did.
func runNoopLoad(ctx context.Context, target string, o noopOptions) (noopRun, error) {
	ctx, cancel := context.WithTimeout(ctx, o.each)
	defer cancel()
	before := ownCPU()
	result, err := load(ctx, loadConfig{Target: target, Requests: 1 << 40, Connections: o.connections}, noopRequest)
	if err != nil {
		return noopRun{}, err
	}
	if result.Unknown > 0 {
		return noopRun{}, fmt.Errorf("noop: %d requests were not answered: %s", result.Unknown, result.Example)
	}
	return noopRun{result.Rate(), float64((ownCPU() - before).Microseconds()) / float64(result.Sent)}, nil
}

// ownCPU is what this process has taken so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
