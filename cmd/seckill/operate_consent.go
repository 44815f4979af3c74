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

// effect says what a command would do to what: how many units or orders, in which
// activity. It is asked for only where there is somebody to read it.
type effect func(context.Context, *stores) (string, error)

var errNotConfirmed = errors.New("not confirmed; nothing was changed")

// change runs the work of a command that changes the stores, once its effect has been
// confirmed.
func (p *program) change(cmd *cobra.Command, sure *consent, would effect, do func(context.Context, *stores, Config) error) error {
	if err := p.askable(cmd, sure); err != nil {
		return err
	}
	return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
		if err := s.belongs(ctx, c); err != nil {
			return err
		}
		if err := p.ask(cmd, sure, func() (string, error) { return would(ctx, s) }); err != nil {
			return err
		}
		return do(p.onBehalf(ctx, sure), s, c)
	})
}

// askable refuses, before anything is looked at, where --yes is needed and not given.
func (p *program) askable(cmd *cobra.Command, c *consent) error {
	if _, ok := keyboard(cmd); ok || c.yes {
		return nil
	}
	return wrongUsage(fmt.Errorf("%s changes something, and there is no terminal to ask on: give --yes", cmd.CommandPath()))
}

// keyboard is the terminal on which questions are answered.
func keyboard(cmd *cobra.Command) (*os.File, bool) {
	in, ok := cmd.InOrStdin().(*os.File)
	return in, ok && isatty.IsTerminal(in.Fd())
}

// ask says on a terminal what would happen and asks whether to go on. Elsewhere --yes
// must have said so.
func (p *program) ask(cmd *cobra.Command, c *consent, would func() (string, error)) error {
	if err := p.askable(cmd, c); err != nil || c.yes {
		return err
	}
	in, _ := keyboard(cmd)
	what, err := would()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.stderr, "%s\nGo on? [y/N] ", what)
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
