package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionPatience is how long a Tab may wait for the stores.
const completionPatience = time.Second

// mostSuggested is how many names one Tab shows.
const mostSuggested = 200

func newCompletionCommand() *cobra.Command {
	scripts := map[string]func(*cobra.Command) error{
		"bash":       func(c *cobra.Command) error { return c.Root().GenBashCompletionV2(c.OutOrStdout(), true) },
		"zsh":        func(c *cobra.Command) error { return c.Root().GenZshCompletion(c.OutOrStdout()) },
		"fish":       func(c *cobra.Command) error { return c.Root().GenFishCompletion(c.OutOrStdout(), true) },
		"powershell": func(c *cobra.Command) error { return c.Root().GenPowerShellCompletionWithDesc(c.OutOrStdout()) },
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands, flags and names",
		Long: `Print a script that makes a shell (bash, zsh, fish or powershell) complete commands
and flags, and, where the stores answer within a second, the ids of sales, SKUs, dead
letters and leases.`,
		Example: `  source <(seckill completion bash)
  seckill completion zsh > "${fpath[1]}/_seckill"
  seckill completion fish > ~/.config/fish/completions/seckill.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := scripts[args[0]](cmd); err != nil {
				return fmt.Errorf("completion: write to standard output: %w", err)
			}
			return nil
		},
	}
}

// names reads what can stand in one place of a command line, given the arguments before it.
type names func(ctx context.Context, c Config, args []string) ([]cobra.Completion, error)

// suggest completes the arguments of a command, one reader a place; the last one goes
// on if more is true. A store that does not answer suggests nothing.
func (p *program) suggest(more bool, places ...names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		place := len(args)
		if more {
			place = min(place, len(places)-1)
		}
		c, err := p.commandConfig(cmd)
		if err != nil || place >= len(places) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c.StartTimeout = completionPatience
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		found, err := places[place](ctx, c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(s cobra.Completion) bool {
			return !strings.HasPrefix(s, begin) || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(s, a+"\t") })
		})
		return found[:min(len(found), mostSuggested)], cobra.ShellCompDirectiveNoFileComp
	}
}

// suggestActivities completes --activity.
func (p *program) suggestActivities(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("activity", func(cmd *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.suggest(false, activityIDs)(cmd, nil, begin)
	})
}

func activityIDs(ctx context.Context, c Config, _ []string) ([]cobra.Completion, error) {
	s, err := openLedger(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	ids, err := s.ledger.AllActivities(ctx)
	return ids, err
}

func skuIDs(ctx context.Context, c Config, args []string) ([]cobra.Completion, error) {
	s, err := openLedger(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	a, err := s.ledger.Activity(ctx, args[0])
	var found []cobra.Completion
	for _, sku := range a.SKUs {
		found = append(found, cobra.CompletionWithDesc(sku.ID, fmt.Sprintf("%d of %d left", sku.Stock, sku.Total)))
	}
	return found, err
}

func letterIDs(ctx context.Context, c Config, _ []string) ([]cobra.Completion, error) {
	s, err := openStores(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	lines, err := s.letters(ctx, c, "", mostSuggested)
	var found []cobra.Completion
	for _, l := range lines {
		found = append(found, cobra.CompletionWithDesc(l.ID, l.Activity+": "+l.Reason))
	}
	return found, err
}

func leaseNames(ctx context.Context, c Config, _ []string) ([]cobra.Completion, error) {
	infos, err := listLeases(ctx, c, c.LockBackend, "")
	var found []cobra.Completion
	for _, i := range infos {
		found = append(found, cobra.CompletionWithDesc(i.Name, i.Owner+", token "+strconv.FormatUint(i.Token, 10)))
	}
	return found, err
}

// leaseTokens suggests the token of the holder of the named lease.
func leaseTokens(ctx context.Context, c Config, args []string) ([]cobra.Completion, error) {
	infos, err := listLeases(ctx, c, c.LockBackend, args[0])
	var found []cobra.Completion
	for _, i := range infos {
		if i.Name == args[0] {
			found = append(found, cobra.CompletionWithDesc(strconv.FormatUint(i.Token, 10), i.Owner))
		}
	}
	return found, err
}
