package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// What the process ends with.
const (
	exitDone    = 0 // done, nothing found wrong
	exitFailed  = 1 // tried, and it did not work
	exitUsage   = 2 // not tried: arguments or configuration are wrong
	exitFinding = 3 // done, but a law does not hold or damage was found
)

// subcommands lists every subcommand, in the order of the help. A subcommand is
// one file with one constructor.
func (p *program) subcommands() []*cobra.Command {
	return []*cobra.Command{
		newServeCommand(p),
		newMigrateCommand(p),
		newActivityCommand(p),
		newOrderCommand(p),
		newReplayCommand(p),
		newDLQCommand(p),
		newLogCommand(p),
		newLockCommand(p),
		newAuditCommand(p),
		newReconcileCommand(p),
		newDoctorCommand(p),
		newConfigCommand(p),
		newCompletionCommand(),
		newVersionCommand(p),
	}
}

// program is one run of seckill, from its arguments to its exit code. It keeps
// the global flags and knows the process only through what it is given, so a
// test can run as many as it likes side by side. Not safe for concurrent use.
type program struct {
	environ func() []string

	configPath string       // --config; empty: SECKILL_CONFIG, else no file
	output     outputFormat // --output
	actor      string       // --actor; empty: user@host

	stdout, stderr io.Writer
}

// newProgram makes a program that reads its environment from environ, a list of
// NAME=value as os.Environ returns it.
func newProgram(environ func() []string) *program {
	return &program{environ: environ}
}

// Run runs one command line and returns the exit code. It does not return
// before the command has stopped; ending ctx asks it to. Errors are written to
// stderr, one line a problem.
func (p *program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p.stdout, p.stderr = stdout, stderr
	p.configPath, p.output, p.actor = "", outputTable, ""
	root := p.rootCommand()
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args to cobra

	began := markBegin(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !*began {
		// Nothing ran yet, so cobra refused the command line.
		err = wrongUsage(fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath()))
	}
	return p.end(err)
}

// end tells the user what went wrong and returns the exit code that belongs to it.
func (p *program) end(err error) int {
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(p.stderr, "seckill:", strings.TrimSpace(line))
	}
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailed
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "seckill",
		Short: "Flash-sale orders: no unit sold twice, no accepted order lost",
		Long: `Orders of flash sales: no unit sold twice, no accepted order lost.

Data goes to standard output, words to standard error. Ends with 0 for done, 1 for
failed, 2 for wrong usage, and 3 for done, but a law does not hold or something was
found. What changes something says what would happen and asks; without a terminal
it needs --yes. Nothing is coloured, with or without NO_COLOR.`,
		Example: `  seckill serve
  seckill activity apply -f spring.yaml
  seckill audit --wait 30s --output json`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, // end writes them
		SilenceUsage:  true, // one clear line beats a page of flags
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetUsageFunc(usage)
	root.SetHelpCommand(newHelpCommand())
	flags := root.PersistentFlags()
	flags.StringVar(&p.configPath, "config", "", "YAML `file` with settings (environment: SECKILL_CONFIG)")
	flags.VarP(&p.output, "output", "o", "how to print data: table or json")
	flags.StringVar(&p.actor, "actor", "", "`name` written to the activity log beside what you change (default user@host)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]cobra.Completion{string(outputTable), string(outputJSON)}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(p.subcommands()...)
	return root
}

// newGroup makes a command that only holds others. Without one of them it is
// wrong usage; cobra alone would print the help and end with 0.
func newGroup(name, short string, children ...*cobra.Command) *cobra.Command {
	names := make([]string, len(children))
	for i, child := range children {
		names[i] = child.Name()
	}
	group := &cobra.Command{
		Use:     name,
		Short:   short,
		Example: groupExamples(children),
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "no subcommand given"
			if len(args) > 0 {
				what = fmt.Sprintf("unknown subcommand %q", args[0])
			}
			return wrongUsage(fmt.Errorf("%s: %s; give one of: %s", cmd.Name(), what, strings.Join(names, ", ")))
		},
	}
	group.AddCommand(children...)
	return group
}

// markBegin reports, after the run, whether a command's own code was reached.
// What fails before that is the command line.
func markBegin(cmd *cobra.Command) *bool {
	began := new(bool)
	var mark func(*cobra.Command)
	mark = func(cmd *cobra.Command) {
		if inner := cmd.RunE; inner != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				*began = true
				return inner(cmd, args)
			}
		}
		for _, child := range cmd.Commands() {
			mark(child)
		}
	}
	mark(cmd)
	return began
}

// exitError is an error that has chosen its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// wrongUsage makes the program end with 2: what was asked cannot be right,
// whatever state the stores are in, and nothing was tried.
func wrongUsage(err error) error { return &exitError{exitUsage, err} }

// finding makes the program end with 3: the work was done, and what it found is
// a broken law or damage.
func finding(err error) error { return &exitError{exitFinding, err} }

// actorName is who is at the keyboard, for the activity log.
func (p *program) actorName() string {
	if p.actor != "" {
		return p.actor
	}
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// show writes data to standard output: v as JSON or, for people, what table
// writes. Table cells are separated by tabs.
func (p *program) show(v any, table func(io.Writer)) error {
	var err error
	if p.output == outputJSON {
		enc := json.NewEncoder(p.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(v)
	} else {
		w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		table(w)
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the answer to standard output: %w", err)
	}
	return nil
}

// outputFormat is the value of --output.
type outputFormat string

const (
	outputTable outputFormat = "table"
	outputJSON  outputFormat = "json"
)

// String implements pflag.Value.
func (f *outputFormat) String() string { return string(*f) }

// Type implements pflag.Value; it is the word after the flag in the help.
func (f *outputFormat) Type() string { return "format" }

// Set implements pflag.Value.
func (f *outputFormat) Set(text string) error {
	switch v := outputFormat(text); v {
	case outputTable, outputJSON:
		*f = v
		return nil
	default:
		return errors.New("must be table or json")
	}
}
