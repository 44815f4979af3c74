package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seckill/deploy/stack"
)

func init() { subcommands = append(subcommands, startCommand) }

// deskTimeout bounds one request to a running "up": a start and some slack.
const deskTimeout = 45 * time.Second

func startCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:       "start NAME --dir DIR",
		Short:     "Start one killed server again, on its old data and port",
		Long:      `Ask the running "seckill-lab up --dir DIR" to start a killed server (redis, postgres, nats or etcd) again on its old data and port. Returns when it answers.`,
		ValidArgs: stack.Names,
		Args:      cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(stack.Names, args[0]) {
				return fmt.Errorf("start: there is no server %q: use one of %s", args[0], strings.Join(stack.Names, ", "))
			}
			return askDesk(cmd.Context(), dir, args[0])
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the running stack (required)")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// desk is where a running "up" takes orders: HTTP on loopback, found through a file in
// the stack's folder that also holds the token. A socket file would be simpler, but
// its path may be at most about a hundred bytes long.
type desk struct {
	server *http.Server
	file   string
	ended  chan struct{}
}

func deskFile(dir string) string { return filepath.Join(dir, "up.desk") }

func openDesk(servers *stack.Stack) (*desk, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for start orders: %w", err)
	}
	token := rand.Text()
	d := &desk{
		server: &http.Server{Handler: deskHandler(servers, token), ReadHeaderTimeout: 5 * time.Second},
		file:   deskFile(servers.Dir()),
		ended:  make(chan struct{}),
	}
	if err := os.WriteFile(d.file, []byte(listener.Addr().String()+" "+token+"\n"), 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("write where start orders are taken: %w", err)
	}
	go func() {
		defer close(d.ended)
		_ = d.server.Serve(listener) // always ends with ErrServerClosed
	}()
	return d, nil
}

func (d *desk) close() {
	_ = os.Remove(d.file)
	_ = d.server.Close()
	<-d.ended
}

func deskHandler(servers *stack.Stack, token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start/{name}", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(token)) != 1 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		if err := servers.Start(r.Context(), r.PathValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return mux
}

func askDesk(ctx context.Context, dir, name string) error {
	text, err := os.ReadFile(deskFile(dir))
	if err != nil {
		return fmt.Errorf("start %s: no \"seckill-lab up\" runs on %s: start it with: seckill-lab up --dir %[2]s", name, dir)
	}
	address, token, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if !ok {
		return fmt.Errorf("start %s: %s is damaged: stop \"seckill-lab up\" and start it again", name, deskFile(dir))
	}
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/start/"+name, http.NoBody)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	request.Header.Set("Authorization", token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy on loopback
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("start %s: the \"seckill-lab up\" of %s does not answer, it may have been killed: start it again with: seckill-lab up --dir %[2]s (%w)", name, dir, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	reason, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	return errors.Join(errors.New(strings.TrimSpace(string(reason))), err)
}
