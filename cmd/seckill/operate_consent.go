package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"seckill/consumer"
)

// consent is how a command that changes something asks first, and says why in the
// activity log.
type consent struct {
	yes    bool
	reason string
}

func consentFlags(cmd *cobra.Command) *consent {
	c := new(consent)
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask; needed where there is no terminal")
	cmd.Flags().StringVar(&c.reason, "reason", "", "`why`, for the activity log")
	return c
}

var errNotConfirmed = errors.New("not confirmed; nothing was changed")

// ask asks on a terminal whether to go on. Elsewhere --yes must have said so.
func (p *program) ask(cmd *cobra.Command, c *consent, question string) error {
	if c.yes {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return wrongUsage(fmt.Errorf("%s: give --yes to confirm, since there is no terminal to ask on: %s", cmd.CommandPath(), question))
	}
	_, _ = fmt.Fprintf(p.stderr, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() { // ends with the answer, or with the process
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = ""
		}
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
	case <-cmd.Context().Done(): // Ctrl-C
	}
	return errNotConfirmed
}

// onBehalf makes the changes under ctx appear as the caller's in the activity log.
func (p *program) onBehalf(ctx context.Context, c *consent) context.Context {
	return consumer.OnBehalf(ctx, consumer.Operator{Name: p.actorName(), Reason: c.reason})
}
