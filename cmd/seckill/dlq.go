package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

// mostLetters is the longest list of dead letters that is shown.
const mostLetters = 10_000

// letterLine is a dead letter as an operator sees it.
type letterLine struct {
	ID string `json:"id"`
	consumer.DeadLetter
	Status admission.Status `json:"status,omitempty"` // of the order's row now
}

func newDLQCommand(p *program) *cobra.Command {
	return newGroup(
		"dlq", "Look at dead letters, and decide them",
		newDLQListCommand(p), newDLQShowCommand(p), newDLQReplayCommand(p), newDLQDropCommand(p),
	)
}

func newDLQListCommand(p *program) *cobra.Command {
	var activity string
	limit := 100
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, oldest first",
		Long: `List the dead letters, oldest first: held orders, which an operator decides with
dlq replay or dlq drop, and messages of the log that cannot be read (their ids are
letter-N). STATUS is what the ledger says of the order now.`,
		Example: "  seckill dlq list\n  seckill dlq list --activity spring --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > mostLetters {
				return wrongUsage(fmt.Errorf("dlq list: --limit %d: must be between 1 and %d", limit, mostLetters))
			}
			return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
				lines, err := s.letters(ctx, c, activity, limit)
				if err != nil {
					return err
				}
				return p.showLetters(lines)
			})
		},
	}
	cmd.Flags().StringVar(&activity, "activity", "", "`id` of the only sale to list")
	cmd.Flags().IntVar(&limit, "limit", limit, "most letters to list")
	p.suggestActivities(cmd)
	settingFlags(cmd)
	return cmd
}

// errEnough ends a reading early.
var errEnough = errors.New("enough was read")

// letters reads the oldest letters with what the ledger says of their orders.
func (s *stores) letters(ctx context.Context, c Config, activity string, limit int) ([]letterLine, error) {
	dead := s.dead(c)
	last, err := dead.Last(ctx)
	if err != nil || last == 0 {
		return []letterLine{}, err
	}
	lines := []letterLine{}
	err = dead.Read(ctx, activity, 1, last, func(page []consumer.Letter, _ uint64) error {
		page = page[:min(len(page), limit-len(lines))]
		more, err := s.withStatus(ctx, page)
		if lines = append(lines, more...); err == nil && len(lines) == limit {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return lines, err
}

func (s *stores) withStatus(ctx context.Context, letters []consumer.Letter) ([]letterLine, error) {
	var ids []string
	for _, l := range letters {
		if l.Order != nil {
			ids = append(ids, l.Order.ID)
		}
	}
	rows, err := s.ledger.Orders(ctx, ids)
	if err != nil {
		return nil, err
	}
	lines := make([]letterLine, len(letters))
	for i, l := range letters {
		lines[i] = letterLine{ID: l.ID(), DeadLetter: l.DeadLetter, Status: rows[l.ID()].Status}
	}
	return lines, nil
}

func (p *program) showLetters(lines []letterLine) error {
	return p.show(map[string]any{"letters": lines}, func(w io.Writer) {
		_, _ = fmt.Fprintln(w, "ID\tACTIVITY\tSKU\tUSER\tQUANTITY\tSTATUS\tREASON\tMESSAGE\tDELIVERIES\tAT\tDETAIL")
		for _, l := range lines {
			o := admission.Order{}
			if l.Order != nil {
				o = *l.Order
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\n", l.ID, l.Activity, orDash(o.SKU), orDash(o.User),
				o.Quantity, orDash(string(l.Status)), l.Reason, l.Seq, l.Deliveries, shownTime(l.At), oneLine(l.Detail))
		}
	})
}

func newDLQShowCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one dead letter",
		Example: "  seckill dlq show 01999999-0000-7000-8000-000000000001\n  seckill dlq show letter-17 --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
				return p.showLetter(ctx, s, c, args[0])
			})
		},
		ValidArgsFunction: p.suggest(false, letterIDs),
	}
	settingFlags(cmd)
	return cmd
}

func (p *program) showLetter(ctx context.Context, s *stores, c Config, id string) error {
	dead := s.dead(c)
	found, err := dead.Find(ctx, "", func(l consumer.Letter) bool { return l.ID() == id })
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("dlq show %s: %w", id, consumer.ErrNoLetter)
	}
	lines, err := s.withStatus(ctx, found[:1])
	if err != nil {
		return err
	}
	l := lines[0]
	return p.show(l, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "id\t%s\nactivity\t%s\nstatus\t%s\nreason\t%s\ndetail\t%s\nlog message\t%d\ndeliveries\t%d\nat\t%s\n",
			l.ID, l.Activity, orDash(string(l.Status)), l.Reason, oneLine(l.Detail), l.Seq, l.Deliveries, shownTime(l.At))
		if o := l.Order; o != nil {
			_, _ = fmt.Fprintf(w, "sku\t%s\nuser\t%s\nquantity\t%d\nreserved at\t%s\n", o.SKU, o.User, o.Quantity, shownTime(o.At))
			return
		}
		_, _ = fmt.Fprintf(w, "message\t%q\n", l.Data)
	})
}
