package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func init() { subcommands = append(subcommands, newBreaksCommand) }

// breakTimeout bounds one test with its safeguard off; a test that hangs without it
// has missed it too.
const breakTimeout = 3 * time.Minute

func newBreaksCommand() *cobra.Command {
	var only, report string
	cmd := &cobra.Command{
		Use:   "breaks",
		Short: "Switch each safeguard off and see its test turn red",
		Long: `Switch each safeguard off and see its test turn red.

Works on a copy of the module: one safeguard at a time is taken out of the copy, the
test that guards it runs, and must fail. Run it inside the module.`,
		Example: "  seckill-lab breaks\n  seckill-lab breaks --only 'epoch|term' --report cmd/seckill-lab/BREAKS.md",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pattern, err := regexp.Compile(only)
			if err != nil {
				return fmt.Errorf("--only is not a pattern: %w", err)
			}
			return runBreaks(cmd.Context(), pattern, report, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "`pattern` of rules or descriptions to run")
	cmd.Flags().StringVar(&report, "report", "", "also write the table to this `file`, as Markdown")
	return cmd
}

// broken is one safeguard and what its test said without it.
type broken struct {
	safeguard
	red  bool
	how  string // why it does not count, if it is not red
	took time.Duration
}

func runBreaks(ctx context.Context, only *regexp.Regexp, report string, out, words io.Writer) error {
	dir, err := copyModule(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var results []broken
	missed := 0
	for _, s := range safeguards {
		if !only.MatchString("rule " + s.rule + ": " + s.what) {
			continue
		}
		r, err := breakOne(ctx, dir, s)
		if err != nil {
			return err
		}
		if !r.red {
			missed++
		}
		_, _ = fmt.Fprintf(words, "rule %-3s %-60s %s (%v)\n", s.rule, s.what, colour(r), r.took.Round(time.Second))
		results = append(results, r)
	}
	table := breaksTable(results)
	if _, err := io.WriteString(out, table); err != nil {
		return err
	}
	if report != "" {
		if err := os.WriteFile(report, []byte(breaksReport(table)), 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d safeguards can be taken out without a test that notices", missed, len(results))
	}
	return nil
}

func colour(b broken) string {
	if b.red {
		return "red"
	}
	return "NOT RED: " + b.how
}

// copyModule copies what is committed or new in the module to a folder of its own.
func copyModule(ctx context.Context) (string, error) {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w; run this inside a checkout", err)
	}
	root := strings.TrimSpace(string(top))
	list := exec.CommandContext(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("list the files of the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "seckill-breaks-")
	if err != nil {
		return "", err
	}
	for name := range strings.Lines(string(files)) {
		name = strings.TrimSpace(name)
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o755)
		}
		if err != nil {
			return dir, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return dir, nil
}

// breakOne takes one safeguard out of the copy, runs its test, and puts it back.
func breakOne(ctx context.Context, dir string, s safeguard) (broken, error) {
	path := filepath.Join(dir, s.file)
	whole, err := os.ReadFile(path)
	if err != nil {
		return broken{}, fmt.Errorf("take out %q: %w", s.what, err)
	}
	if n := strings.Count(string(whole), s.before); n != 1 {
		return broken{}, fmt.Errorf("take out %q: %q stands %d times in %s, want once; mend breaks_table.go", s.what, s.before, n, s.file)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(whole), s.before, s.after, 1)), 0o644); err != nil {
		return broken{}, err
	}
	defer func() { _ = os.WriteFile(path, whole, 0o644) }()
	ctx, cancel := context.WithTimeout(ctx, breakTimeout+time.Minute)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", breakTimeout.String(), "-run", "^("+s.test+")$", "./consumer")
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return broken{}, fmt.Errorf("take out %q: interrupted: %w", s.what, context.Cause(ctx))
	}
	r := broken{safeguard: s, took: time.Since(began)}
	switch text := string(output); {
	case err == nil:
		r.how = "the test passed"
	case strings.Contains(text, "--- FAIL: "+strings.SplitN(s.test, "|", 2)[0]), strings.Contains(text, "panic: test timed out"):
		r.red = true
	default:
		r.how = "the test did not run: " + firstLine(text)
	}
	return r, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func breaksTable(results []broken) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	_, _ = fmt.Fprintln(w, "| rule\t| switched off\t| in\t| the test that turns red\t| result\t|")
	_, _ = fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range results {
		_, _ = fmt.Fprintf(w, "| %s\t| %s\t| `%s`\t| `%s`\t| %s\t|\n", r.rule, r.what, r.file, r.test, colour(r))
	}
	_ = w.Flush()
	return b.String()
}

func breaksReport(table string) string {
	return `# Safeguards, switched off one at a time

Each line takes one safeguard out of a copy of the module (see ` + "`cmd/seckill-lab/breaks_table.go`" + `) and runs the
test that guards it: red means that the test noticed. Made by ` + "`make breaks`" + `.

` + table
}
