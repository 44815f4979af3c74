package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usage prints how a command is called. Examples come first: they are what a reader
// looks for. Every setting is a flag of nearly every command, so they are listed only
// where they are the matter (see listSettings).
func usage(cmd *cobra.Command) error {
	own, settings := splitFlags(cmd.LocalFlags())
	var b strings.Builder
	if cmd.HasExample() {
		fmt.Fprintf(&b, "Examples:\n%s\n\n", cmd.Example)
	}
	call := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		call = cmd.CommandPath() + " [command]"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", call)
	writeCommands(&b, cmd)
	writeFlags(&b, "Flags", own)
	writeFlags(&b, "Global flags", cmd.InheritedFlags())
	switch {
	case !settings.HasFlags():
	case cmd.Annotations[listedSettings] != "":
		writeFlags(&b, "Settings", settings)
	default:
		b.WriteString("\nEvery setting is a flag too, such as --namespace; seckill config print --help lists them.\n")
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	b.WriteString("\nCommands:\n")
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() || child.Name() == "help" {
			fmt.Fprintf(b, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
		}
	}
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n%s\n", title, strings.TrimRight(flags.FlagUsages(), " \n"))
	}
}

// splitFlags tells the flags of a command's own from those that are settings.
func splitFlags(all *pflag.FlagSet) (own, settings *pflag.FlagSet) {
	own, settings = pflag.NewFlagSet("own", pflag.ContinueOnError), pflag.NewFlagSet("settings", pflag.ContinueOnError)
	own.SortFlags, settings.SortFlags = false, false
	all.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[settingAnnotation] != nil {
			settings.AddFlag(f)
			return
		}
		own.AddFlag(f)
	})
	return own, settings
}

// listedSettings marks a command whose help lists the settings.
const listedSettings = "seckill_listed_settings"

// listSettings has the help of a command list its settings.
func listSettings(cmd *cobra.Command) { cmd.Annotations = map[string]string{listedSettings: "yes"} }

// newHelpCommand is cobra's help, save that a command that does not exist is wrong
// usage; cobra alone would print the help of the root and end with 0.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Help about any command",
		Example: "  seckill help\n  seckill help replay run",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return wrongUsage(fmt.Errorf("help: unknown command %q; seckill help lists them", strings.Join(args, " ")))
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// groupExamples are the first examples of the commands in a group.
func groupExamples(children []*cobra.Command) string {
	var lines []string
	for _, child := range children {
		first, _, _ := strings.Cut(child.Example, "\n")
		lines = append(lines, first)
	}
	return strings.Join(lines, "\n")
}
