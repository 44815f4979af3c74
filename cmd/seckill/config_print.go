package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// printedSetting is one line of `config print`.
type printedSetting struct {
	Key    string `json:"key"`
	Env    string `json:"env"`
	Flag   string `json:"flag"`
	Value  string `json:"value"`            // as text, secrets masked
	Origin string `json:"origin,omitempty"` // only with --origin
}

func newConfigCommand(p *program) *cobra.Command {
	return newGroup("config", "Look at the configuration", newConfigPrintCommand(p))
}

func newConfigPrintCommand(p *program) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting, secrets masked",
		Example: `  seckill config print --origin
  SECKILL_LOCK_TTL=5s seckill config print --origin --config seckill.yaml
  seckill config print --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			return p.showConfig(c, origin)
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value came from: flag, env, file or default")
	settingFlags(cmd)
	listSettings(cmd)
	return cmd
}

func (p *program) showConfig(c Config, origin bool) error {
	lines := make([]printedSetting, len(settings))
	for i, s := range settings {
		v := c.values[s.key()]
		lines[i] = printedSetting{Key: s.key(), Env: s.env(), Flag: "--" + s.flag(), Value: s.shown(v.text)}
		if origin {
			lines[i].Origin = v.origin
		}
	}
	return p.show(map[string]any{"settings": lines}, func(w io.Writer) {
		for _, line := range lines {
			switch {
			case line.Value == "":
				line.Value = "-" // an empty cell would look like a missing one
			case strings.ContainsFunc(line.Value, unprintable):
				line.Value = strconv.Quote(line.Value)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s", line.Key, line.Value)
			if origin {
				_, _ = fmt.Fprintf(w, "\t%s", line.Origin)
			}
			_, _ = fmt.Fprintln(w)
		}
	})
}

// unprintable finds what could move the cursor or colour the terminal.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }
