package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"

	"seckill/deploy/stack"
)

func init() { subcommands = append(subcommands, serverCommand) }

// serverCommand is what the stack runs as its children. It is hidden: nobody types it.
func serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "server",
		Short:  "One process of the local stack",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.AddCommand(natsCommand(), etcdCommand(), guardCommand())
	return cmd
}

func natsCommand() *cobra.Command {
	var dir, name, listen, monitor string
	var secure security
	cmd := &cobra.Command{
		Use:   "nats",
		Short: "NATS with JetStream",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNATS(cmd.Context(), dir, name, listen, monitor, secure)
		},
	}
	secure.flags(cmd)
	cmd.Flags().StringVar(&secure.user, "user", "", "whom clients have to be")
	cmd.Flags().StringVar(&secure.password, "password", "", "of that user")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the streams")
	cmd.Flags().StringVar(&name, "name", "", "name of the server")
	cmd.Flags().StringVar(&listen, "listen", "", "HOST:PORT for clients")
	cmd.Flags().StringVar(&monitor, "monitor", "", "HOST:PORT for monitoring")
	return cmd
}

// security is how a server is reached by who may. Zero values: by everybody, without TLS.
type security struct{ cert, key, user, password string }

func (s *security) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.cert, "cert", "", "PEM file of the certificate; without one, no TLS")
	cmd.Flags().StringVar(&s.key, "key", "", "PEM file of its key")
}

func runNATS(ctx context.Context, dir, name, listen, monitor string, secure security) error {
	opts := &server.Options{
		ServerName: name,
		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: true,
		// Streams reserve their MaxBytes. Many tests share this server, each with
		// streams of production size, so the account must not run out; a disk that is
		// really full is reported by the writes.
		JetStreamMaxStore: 1 << 46,
		NoSigs:            true,
	}
	var err error
	if opts.Host, opts.Port, err = hostPort(listen); err != nil {
		return fmt.Errorf("nats: --listen: %w", err)
	}
	if opts.HTTPHost, opts.HTTPPort, err = hostPort(monitor); err != nil {
		return fmt.Errorf("nats: --monitor: %w", err)
	}
	opts.Username, opts.Password = secure.user, secure.password
	if secure.cert != "" {
		if opts.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{CertFile: secure.cert, KeyFile: secure.key}); err != nil {
			return fmt.Errorf("nats: %w", err)
		}
		opts.TLSTimeout = 5
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	srv.ConfigureLogger()
	go srv.Start() // ends with Shutdown
	if !srv.ReadyForConnections(30 * time.Second) {
		srv.Shutdown()
		return fmt.Errorf("nats: not ready on %s within 30s", listen)
	}
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

func hostPort(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.Atoi(text)
	return host, port, err
}

func etcdCommand() *cobra.Command {
	var dir, name, listen, peer string
	var secure security
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "etcd, one member",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runEtcd(cmd.Context(), dir, name, listen, peer, secure)
		},
	}
	secure.flags(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the data")
	cmd.Flags().StringVar(&name, "name", "", "name of the member")
	cmd.Flags().StringVar(&listen, "listen", "", "HOST:PORT for clients")
	cmd.Flags().StringVar(&peer, "peer", "", "HOST:PORT for other members; there are none, but etcd insists")
	return cmd
}

func runEtcd(ctx context.Context, dir, name, listen, peer string, secure security) error {
	clients, peers := []url.URL{{Scheme: "http", Host: listen}}, []url.URL{{Scheme: "http", Host: peer}}
	cfg := embed.NewConfig()
	if secure.cert != "" {
		clients[0].Scheme = "https"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = secure.cert, secure.key
	}
	cfg.Name, cfg.Dir = name, dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers, peers
	cfg.InitialCluster = cfg.InitialClusterFromName(name)
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer etcd.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-etcd.Server.StopNotify():
		return errors.New("etcd: the server stopped by itself")
	}
}

// guardCommand outlives the process that it guards, so it does not listen to the
// signals that end that one.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "guard",
		Short: "Ends the stack's processes when their parent dies",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			return stack.Guard(os.Stdin)
		},
	}
}
