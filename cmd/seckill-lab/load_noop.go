package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The sender must not be the bottleneck of what it measures: against a handler that does nothing it has to reach
// this part of the rate of wrk, on the same cores in the same minutes.
const leastOfWrk = 0.9

const (
	noopBuyer = "buyer-0000001"
	noopPath  = "/v1/activities/noop/orders"
	noopBody  = `{"sku":"s1","quantity":1}`
)

type noopOptions struct {
	rounds      int
	each        time.Duration
	connections int
}

func init() { subcommands = append(subcommands, newNoopCommand) }

// newNoopCommand is the check of the sender itself.
func newNoopCommand() *cobra.Command {
	var o noopOptions
	cmd := &cobra.Command{
		Use:   "noop",
		Short: "Compare the load engine with wrk against a handler that does nothing",
		Long: `Sends the same POST with wrk and with the load engine, in turns, to a net/http
handler in a process of its own that reads the request and answers 202, and prints the
median rates. Fails if the engine reaches less than 0.9 of wrk: figures measured with
such a sender are void. Needs wrk. Run it on a quiet machine.`,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compareNoop(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().IntVar(&o.rounds, "rounds", 5, "runs of each sender")
	cmd.Flags().DurationVar(&o.each, "each", 4*time.Second, "length of a run, whole seconds")
	cmd.Flags().IntVar(&o.connections, "connections", 256, "open connections")
	cmd.AddCommand(&cobra.Command{
		Use:   "serve",
		Short: "Answer 202 to everything until standard input ends",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveNoop(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	})
	return cmd
}

// noopHandler reads the request and answers like an admitted order.
func noopHandler() http.Handler {
	answer := []byte(`{"order_id":"0190b3a0-0000-7000-8000-000000000000","status":"accepted",` +
		`"activity":"noop","sku":"s1","quantity":1}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(answer)
	})
}

// serveNoop serves until its standard input ends, so that it cannot outlive the process that started it.
func serveNoop(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("noop: listen on loopback: %w", err)
	}
	server := &http.Server{Handler: noopHandler(), ReadHeaderTimeout: 5 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintln(stdout, listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("noop: serve on %s: %w", listener.Addr(), err)
	}
	return nil
}

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
	fmt.Fprintf(out, "POST, %d connections, %v each, in turns\n%8s %12s %12s %8s\n",
		o.connections, o.each, "round", "wrk/s", "engine/s", "ratio")
	var theirs, ours []float64
	for round := 1; round <= o.rounds; round++ {
		their, err := runWrk(ctx, wrk, target, o)
		if err != nil {
			return err
		}
		our, err := runNoopLoad(ctx, target, o)
		if err != nil {
			return err
		}
		theirs, ours = append(theirs, their), append(ours, our)
		fmt.Fprintf(out, "%8d %12.0f %12.0f %8.2f\n", round, their, our, our/their)
	}
	their, our := median(theirs), median(ours)
	fmt.Fprintf(out, "%8s %12.0f %12.0f %8.2f\n", "median", their, our, our/their)
	if our < leastOfWrk*their {
		return fmt.Errorf("noop: the engine reached %.2f of wrk, less than %.1f: repeat on a quiet machine; "+
			"figures measured meanwhile are void", our/their, leastOfWrk)
	}
	return nil
}

// startNoop starts the handler in a child process, so that it gets no more and no less of the machine than a
// service would.
func startNoop(ctx context.Context) (target string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("noop: find this program: %w", err)
	}
	child := exec.CommandContext(ctx, self, "noop", "serve")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return "", nil, fmt.Errorf("noop: %w", err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("noop: %w", err)
	}
	if err := child.Start(); err != nil {
		return "", nil, fmt.Errorf("noop: start the handler: %w", err)
	}
	stop = func() {
		_ = stdin.Close()
		_ = child.Wait()
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("noop: read the handler's address: %w", err)
	}
	return "http://" + strings.TrimSpace(address), stop, nil
}

var wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

func runWrk(ctx context.Context, wrk, target string, o noopOptions) (float64, error) {
	dir, err := os.MkdirTemp("", "seckill-lab-noop-")
	if err != nil {
		return 0, fmt.Errorf("noop: %w", err)
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "post.lua")
	lua := fmt.Sprintf("wrk.method = \"POST\"\nwrk.body = '%s'\n"+
		"wrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.headers[\"X-User-ID\"] = \"%s\"\n", noopBody, noopBuyer)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return 0, fmt.Errorf("noop: %w", err)
	}
	said, err := exec.CommandContext(ctx, wrk, "-t2", "-c", strconv.Itoa(o.connections),
		"-d", strconv.Itoa(int(o.each.Seconds()))+"s", "-s", script, target+noopPath).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("noop: run wrk: %w: %s", err, said)
	}
	found := wrkRate.FindSubmatch(said)
	if found == nil {
		return 0, fmt.Errorf("noop: find the rate in what wrk said: %s", said)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// runNoopLoad sends as fast as the connections allow, for as long as wrk did.
func runNoopLoad(ctx context.Context, target string, o noopOptions) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, o.each)
	defer cancel()
	result, err := load(ctx, loadConfig{Target: target, Requests: 1 << 40, Connections: o.connections},
		noopRequest)
	if err != nil {
		return 0, err
	}
	if result.Unknown > 0 {
		return 0, fmt.Errorf("noop: %d requests were not answered: %s", result.Unknown, result.Example)
	}
	return result.Rate(), nil
}

// noopRequest is what wrk is told to send, too.
func noopRequest(_ int64, r *loadRequest) {
	r.Path = append(r.Path[:0], noopPath...)
	r.Buyer = append(r.Buyer[:0], noopBuyer...)
	r.Body = append(r.Body[:0], noopBody...)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
