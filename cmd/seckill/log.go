package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"seckill/consumer"
)

func newLogCommand(p *program) *cobra.Command {
	return newGroup("log", "Look at the order log, and trim it", newLogInfoCommand(p), newLogTrimCommand(p))
}

func (s *stores) logKeeper() *consumer.LogKeeper {
	return &consumer.LogKeeper{Ledger: s.ledger, Log: s.log}
}

func newLogInfoCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "info",
		Short:   "Show the order log and how far it is settled",
		Example: "  seckill log info\n  seckill log info --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
				if err := s.belongs(ctx, c); err != nil {
					return err
				}
				info, err := s.logKeeper().Info(ctx)
				if err != nil {
					return err
				}
				return p.show(info, func(w io.Writer) { logTable(w, info) })
			})
		},
	}
	settingFlags(cmd)
	return cmd
}

func logTable(w io.Writer, l consumer.LogInfo) {
	_, _ = fmt.Fprintf(w, "stream\t%s\ncreated\t%s\nmessages\t%d to %d, %d in all\nbytes\t%d of at most %d\nmay be trimmed before\t%d\n\n",
		l.Stream, shownTime(l.Created), l.FirstSeq, l.LastSeq, l.Messages, l.Bytes, l.MaxBytes, l.TrimBefore)
	_, _ = fmt.Fprintln(w, "PARTITION\tSETTLED\tBACKLOG\tTERM\tHOLDER")
	for _, p := range l.Partitions {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\n", p.Partition, p.SettledSeq, p.Backlog, p.Term, orDash(p.Holder))
	}
}

func newLogTrimCommand(p *program) *cobra.Command {
	var before uint64
	cmd := &cobra.Command{
		Use:   "trim",
		Short: "Throw away the oldest messages of the log, once they are settled",
		Long: `Throw away the messages of the log before the given one, to make room or to keep a
replay short. Refused unless every one of them is settled; the error then says how far
it may go, and so does seckill log info. The rows of their orders stay in the ledger.`,
		Example: `  seckill log trim --before-seq 120000
  seckill log trim --before-seq 120000 --yes --reason "the log is full"`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Uint64Var(&before, "before-seq", 0, "first message to keep, by its `number`")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if before == 0 {
			return wrongUsage(errors.New("log trim: give the first message to keep with --before-seq; seckill log info shows how far it may go"))
		}
		would := func(ctx context.Context, s *stores) (string, error) { return s.wouldTrim(ctx, before) }
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, _ Config) error {
			removed, err := s.logKeeper().Trim(ctx, before)
			if err != nil {
				return err
			}
			return p.show(map[string]uint64{"removed": removed, "first_seq": before}, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "removed\t%d\nfirst message\t%d\n", removed, before)
			})
		})
	}
	settingFlags(cmd)
	return cmd
}
