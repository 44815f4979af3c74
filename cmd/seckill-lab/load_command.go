package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seckill/admission"
)

func init() { subcommands = append(subcommands, newLoadCommand) }

// loadOptions of the command.
type loadOptions struct {
	send sendOptions

	activities, skus []string
	units            int64
	lock, program    string

	target, tokenFile         string
	admins                    []string
	postgresURL, monitorURL   string
	namespace, output, plotTo string
}

const loadHelp = `Sends requests at their own pace, whether answers come or not, and counts latency
from the moment a request was meant to leave, so that a stall shows in the latency of
everybody who would have asked meanwhile. Waits until what was admitted is settled,
audits, and reports. A run whose audit is not clean prints no figure and ends with 3.

Without --target it starts Redis, Postgres, NATS, etcd and the service on this machine,
in a temporary folder, and removes them at the end. With --target it aims at a service
that runs, on activities that are open; what the flags --admin, --postgres-url and
--nats-monitor-url do not give is missing in the report. The service must believe the
X-User-ID of this machine (auth.mode header, auth.trusted_proxies).

Profiles:
  constant  the same rate all the time; --rate 0: as fast as the connections allow,
            without a schedule (latency then counts from the sending)
  ramp      from nothing evenly up to the rate
  spike     a tenth of the rate, then at once the full one for two fifths of the time,
            then a tenth again`

const loadExamples = `  seckill-lab load --profile spike --rate 8000 --plot spike.svg
  seckill-lab load --profile ramp --rate 20000 --duration 30s --units 1000000
  seckill-lab load --activity a1,a2 --sku s1,s2,s3 --repeats 0.5 --output json
  seckill-lab load --target http://staging:8080 --activity spring --sku lamp \
    --admin http://staging:8081 --admin-token-file token --rate 500`

func newLoadCommand() *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use: "load", Short: "Put a load on the service and report it, audited",
		Long: loadHelp, Example: loadExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			if err := holdLoad(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			return nil
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *loadOptions) flags(cmd *cobra.Command) {
	f, s := cmd.Flags(), &o.send
	f.SortFlags = false
	f.StringVar(&s.profile.Name, "profile", constantProfile, "constant, ramp or spike")
	f.Float64Var(&s.profile.Rate, "rate", 2000, "requests/s at the highest")
	f.DurationVar(&s.profile.Duration, "duration", 10*time.Second, "how long to send")
	f.IntVar(&s.connections, "connections", 256, "open connections")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "longest wait for an answer")
	f.Int64Var(&s.buyers, "buyers", 1_000_000, "how many buyers there are; when all have asked, some ask again")
	f.Float64Var(&s.repeats, "repeats", 0.3, "share of the requests that come from buyers who asked a moment before")
	f.Uint64Var(&s.seed, "seed", 1, "another one makes another crowd")
	f.StringSliceVar(&o.activities, "activity", []string{"load-1"}, "activities, separated by commas")
	f.StringSliceVar(&o.skus, "sku", []string{"s1"}, "SKUs in each activity, separated by commas")
	f.StringVar(&o.output, "output", "table", "table or json")
	f.StringVar(&o.plotTo, "plot", "", "write requests, admissions, backlog and latency over time to this file, as SVG")
	f.Int64Var(&o.units, "units", 5000, "units of each SKU, with a limit of one a buyer (without --target)")
	f.StringVar(&o.lock, "lock", "etcd", "lock backend: etcd or redis (without --target)")
	f.StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	f.StringVar(&o.target, "target", "", "base URL of a service that runs, such as http://staging:8080")
	f.StringSliceVar(&o.admins, "admin", nil, "admin addresses of all its processes: settlement, GC and audit (with --target)")
	f.StringVar(&o.tokenFile, "admin-token-file", "", "file with its admin token (with --admin)")
	f.StringVar(&o.postgresURL, "postgres-url", "", "its ledger, read only: the answers are compared with it (with --target)")
	f.StringVar(&o.monitorURL, "nats-monitor-url", "", "monitoring address of its NATS: the sync interval (with --target)")
	f.StringVar(&o.namespace, "namespace", "seckill", "its namespace (with --postgres-url)")
	f.StringArrayVar(&s.header, "header", nil, `a further header line, "Name: value"; may be repeated`)
}

func (o *loadOptions) check() error {
	s := &o.send
	for _, name := range slices.Concat(o.activities, o.skus) {
		if !admission.ValidName(name) {
			return fmt.Errorf("--activity and --sku: %q is not a name of 1 to 64 letters, digits, _ and -", name)
		}
	}
	switch {
	case o.lock != "etcd" && o.lock != "redis":
		return fmt.Errorf("--lock is %q: use etcd or redis", o.lock)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output is %q: use table or json", o.output)
	case len(o.activities) == 0 || len(o.skus) == 0:
		return errors.New("--activity and --sku: name at least one of each")
	case s.buyers < 1 || s.buyers > math.MaxInt32:
		return fmt.Errorf("--buyers is %d: choose 1 to %d", s.buyers, math.MaxInt32)
	case s.repeats < 0 || s.repeats > 1:
		return fmt.Errorf("--repeats is %v: choose 0 to 1", s.repeats)
	case o.units < 1 || o.units > math.MaxInt32:
		return fmt.Errorf("--units is %d: choose 1 to %d", o.units, math.MaxInt32)
	case o.target == "" && (len(o.admins) > 0 || o.postgresURL != "" || o.monitorURL != "" || o.tokenFile != ""):
		return errors.New("--admin, --admin-token-file, --postgres-url and --nats-monitor-url belong to --target")
	case (len(o.admins) > 0) != (o.tokenFile != ""):
		return errors.New("--admin and --admin-token-file belong together: the audit needs the token")
	}
	_, _, err := s.profile.schedule()
	return err
}

// holdLoad is the whole of it: what was started is stopped before it returns.
func holdLoad(ctx context.Context, out, words io.Writer, o loadOptions) (err error) {
	t, end, err := o.openTarget(ctx, words)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s, err := send(ctx, words, t, o.send)
	if err != nil {
		return err
	}
	report := newLoadReport(t, o.send, s)
	write := report.writeTable
	if o.output == "json" {
		write = report.writeJSON
	}
	if err := write(out); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if !s.audit.Clean {
		return exitError{3, fmt.Errorf("the audit is not clean: %s", s.audit.Violations[0])}
	}
	if o.plotTo == "" {
		return nil
	}
	if err := writePlot(o.plotTo, report.title(), s.heard.course); err != nil {
		return err
	}
	fmt.Fprintf(words, "plot: %s\n", o.plotTo)
	return nil
}

// openTarget is somebody's service, or one of our own on servers of our own.
func (o *loadOptions) openTarget(ctx context.Context, words io.Writer) (*target, func() error, error) {
	if o.target != "" {
		t, err := o.otherTarget()
		return t, func() error { return nil }, err
	}
	program, err := serviceProgram(o.program)
	if err != nil {
		return nil, nil, err
	}
	s, err := openStand(ctx, words, program, o.lock)
	if err != nil {
		return nil, nil, err
	}
	t := s.target(o.activities, o.skus)
	if err := s.serving.openAll(ctx, t, o.units); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return t, s.close, nil
}

func (o *loadOptions) otherTarget() (*target, error) {
	t := &target{
		public: strings.TrimSuffix(o.target, "/"), activities: o.activities, skus: o.skus, namespace: o.namespace,
		postgresURL: o.postgresURL, monitorURL: o.monitorURL, pids: map[string]int{"this sender": os.Getpid()},
	}
	for _, admin := range o.admins {
		t.admins = append(t.admins, strings.TrimSuffix(admin, "/"))
	}
	if o.tokenFile == "" {
		return t, nil
	}
	token, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the admin token: %w", err)
	}
	t.token = strings.TrimSpace(string(token))
	return t, nil
}
