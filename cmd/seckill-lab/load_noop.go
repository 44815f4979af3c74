package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

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
handler in a process of its own that decodes the request and answers 202, and prints the
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

// noopHandler decodes the request and answers like an admitted order. It is the ceiling of what a service on
// net/http can do.
func noopHandler() http.Handler {
	answer := []byte(`{"order_id":"0190b3a0-0000-7000-8000-000000000000","status":"accepted",` +
		`"activity":"noop","sku":"s1","quantity":1}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			SKU      string `json:"sku"`
			Quantity int64  `json:"quantity"`
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.SKU == "" || order.Quantity < 1 {
			http.Error(w, "not an order", http.StatusBadRequest)
			return
		}
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

// noopRequest is what wrk is told to send, too.
func noopRequest(_ int64, r *loadRequest) {
	r.Path = append(r.Path[:0], noopPath...)
	r.Buyer = append(r.Buyer[:0], noopBuyer...)
	r.Body = append(r.Body[:0], noopBody...)
}
