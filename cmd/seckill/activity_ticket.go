package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seckill/admission"
)

func newActivityTicketCommand(p *program) *cobra.Command {
	t := admission.Ticket{}
	var lasts time.Duration
	var from string
	cmd := &cobra.Command{
		Use:   "ticket ACTIVITY",
		Short: "Sign an entry ticket, for tests and support",
		Long: `Sign an entry ticket with the first key of ticket.secrets. A shop signs its own: a JWT
(HS256) with the header typ "seckill-ticket+jwt" and the claims sub (the buyer), aud (the
activity), nbf, exp and weight (1 to 100). A buyer sends it as Seckill-Ticket; a weight
of 10 gives ten times the rate of limit.buyer.`,
		Example: `  seckill activity ticket spring --user ann
  seckill activity ticket spring --user ann --weight 10 --from 2026-12-01T20:00:00+08:00 --lasts 30m`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			if err := c.need("TICKET_SECRETS"); err != nil {
				return err
			}
			t.Activity = args[0]
			return p.signTicket(c, t, from, lasts)
		},
	}
	cmd.Flags().StringVar(&t.Buyer, "user", "", "`buyer` whose ticket it is")
	cmd.Flags().IntVar(&t.Weight, "weight", 1, "times the rate of other buyers")
	cmd.Flags().StringVar(&from, "from", "", "`when` it begins, RFC 3339 with zone (default now)")
	cmd.Flags().DurationVar(&lasts, "lasts", time.Hour, "how long it lasts")
	cmd.ValidArgsFunction = p.suggest(false, activityIDs)
	settingFlags(cmd)
	return cmd
}

func (p *program) signTicket(c Config, t admission.Ticket, from string, lasts time.Duration) error {
	t.From = time.Now()
	if from != "" {
		var err error
		if t.From, err = time.Parse(time.RFC3339, from); err != nil {
			return wrongUsage(fmt.Errorf("activity ticket: --from %.40q is not an RFC 3339 time with zone", from))
		}
	}
	t.Until = t.From.Add(lasts)
	text, err := t.Sign([]byte(c.TicketSecrets[0]))
	if err != nil {
		return wrongUsage(fmt.Errorf("activity ticket: %w", err))
	}
	return p.show(map[string]any{"ticket": text}, func(w io.Writer) { _, _ = fmt.Fprintln(w, text) })
}
