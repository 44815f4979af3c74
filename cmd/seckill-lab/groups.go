package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func init() { subcommands = append(subcommands, newGroupsCommand) }

// groupNames says what each group is.
var groupNames = map[string]string{
	"A": "no lock, no guard",
	"B": "SET NX lock, 50 ms",
	"C": "lock and queue",
	"D": "this system, Redis leases",
	"E": "this system, etcd leases",
	"F": "this system, every lease to everybody",
}

// groupOptions of the command.
type groupOptions struct {
	groups      []string
	clients     int64
	ramp        time.Duration
	full        time.Duration
	units       int64
	connections int
	program     string
}

const groupsHelp = `Puts the same load on six ways to take orders, each on the same real servers, one after
the other, and asks Postgres alone what was sold:

  A  no lock and no guard: read the stock, check it, write what was computed
  B  the same inside a SET NX lock that expires after 50 ms; one section in a hundred
     stalls for 80 ms
  C  a lock for the buyer, a script that takes the unit, and a queue: one order a
     message, one order a transaction
  D  this system, leases in Redis
  E  this system, leases in etcd
  F  this system with three workers of which each holds every lease

First come --clients buyers within --ramp, one request each, for --units units; then
buyers without an end, as fast as the connections allow, for --full. A unit is oversold
if it is in a sold order and was not taken out of the stock. A and B oversell. The
command ends with 3 if C, D, E or F does.`

func newGroupsCommand() *cobra.Command {
	var o groupOptions
	cmd := &cobra.Command{
		Use: "groups", Short: "The same load on six ways to sell, and what each oversells", Long: groupsHelp,
		Example: "  seckill-lab groups\n  seckill-lab groups --groups C,E --full 5s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return fmt.Errorf("groups: %w", err)
			}
			results, err := runGroups(cmd.Context(), cmd.ErrOrStderr(), o)
			if err != nil {
				return fmt.Errorf("groups: %w", err)
			}
			if err := writeGroups(cmd.OutOrStdout(), results); err != nil {
				return fmt.Errorf("groups: print the table: %w", err)
			}
			return groupVerdict(results)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.groups, "groups", []string{"A", "B", "C", "D", "E", "F"}, "which, separated by commas")
	f.Int64Var(&o.clients, "clients", 3000, "buyers of the first load")
	f.DurationVar(&o.ramp, "ramp", 10*time.Second, "how long they take to come")
	f.Int64Var(&o.units, "units", 1000, "units for them")
	f.DurationVar(&o.full, "full", 10*time.Second, "how long the second load lasts")
	f.IntVar(&o.connections, "connections", 256, "open connections")
	f.StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	cmd.AddCommand(newGroupsServeCommand())
	return cmd
}

func (o *groupOptions) check() (err error) {
	for _, name := range o.groups {
		if groupNames[name] == "" {
			return fmt.Errorf("--groups: there is no group %q: use A to F", name)
		}
	}
	switch {
	case len(o.groups) == 0:
		return errors.New("--groups: name at least one")
	case o.clients < 1 || o.units < 1 || o.ramp < time.Second || o.full < time.Second:
		return errors.New("--clients and --units: at least 1; --ramp and --full: at least 1s")
	case o.connections < 1 || o.connections > maxConnections:
		return fmt.Errorf("--connections is %d: choose 1 to %d", o.connections, maxConnections)
	}
	o.program, err = serviceProgram(o.program)
	return err
}

// groupResult is one load on one group.
type groupResult struct {
	group, load string
	perSecond   float64 // answers
	p95         time.Duration
	admitted    int64 // answered with 202
	unknown     int64 // 503, or no answer
	sold        int64 // units in orders, as Postgres has them
	oversold    int64
	settled     float64 // orders/s, from the first request to the last settlement
	poolWaits   float64
	gc          gcPauses
}

func runGroups(ctx context.Context, words io.Writer, o groupOptions) (results []groupResult, err error) {
	s, err := openServers(ctx, words)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, name := range slices.Sorted(slices.Values(o.groups)) {
		fmt.Fprintf(words, "group %s: %s\n", name, groupNames[name])
		of, err := runGroup(ctx, words, s, name, o)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", name, err)
		}
		results = append(results, of...)
	}
	return results, nil
}

func writeGroups(out io.Writer, results []groupResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "group\tload\tanswers/s\tp95\tadmitted\t503\tsold\toversold\tsettled/s\tpool waits\tGC pauses\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d, %.1f ms\t\n", r.group, r.load, count(int64(r.perSecond)), short(r.p95),
			count(r.admitted), count(r.unknown), count(r.sold), count(r.oversold), count(int64(r.settled)),
			count(int64(r.poolWaits)), r.gc.Count, r.gc.TotalMS)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\noversold: sold orders that were not taken out of the stock, by psql:\n  %s\n", judgeSQL)
	return err
}

// groupVerdict is an error if a group that must not oversell did.
func groupVerdict(results []groupResult) error {
	for _, r := range results {
		if r.oversold != 0 && r.group != "A" && r.group != "B" {
			return exitError{3, fmt.Errorf("groups: group %s oversold %d units", r.group, r.oversold)}
		}
	}
	return nil
}
