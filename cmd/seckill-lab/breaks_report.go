package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// breaksProgress tells how far the table is: a line for each safeguard, and below them
// a bar, if there is a terminal. It is safe for concurrent use.
type breaksProgress struct {
	lines io.Writer
	bars  *mpb.Progress
	bar   *mpb.Bar
}

func showBreaks(to io.Writer, tests int) *breaksProgress {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		_, _ = fmt.Fprintf(to, "%d runs of tests\n", tests)
		return &breaksProgress{lines: to}
	}
	p := &breaksProgress{bars: mpb.New(mpb.WithOutput(to), mpb.WithWidth(40), mpb.WithRefreshRate(progressEvery))}
	p.lines = p.bars // above the bar
	p.bar = p.bars.AddBar(
		int64(tests),
		mpb.PrependDecorators(decor.Name("safeguards off "), decor.CountersNoUnit("%d of %d ")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 8})),
	)
	return p
}

func (p *breaksProgress) done(r broken) {
	_, _ = fmt.Fprintf(p.lines, "%-75s %s (%v)\n", r.safeguard, colour(r), r.took.Round(time.Second))
	if p.bar != nil {
		p.bar.Increment()
	}
}

func (p *breaksProgress) end() {
	if p.bar != nil {
		p.bar.Abort(false) // does nothing to a bar that is full
		p.bars.Wait()
	}
}

// colour is what a test has shown. Without a word it is what it should be.
func colour(b broken) string {
	name := map[bool]string{true: "red", false: "green"}[b.red]
	if b.right() {
		return name
	}
	return strings.ToUpper(name) + ": " + inCell(b.said)
}

func breaksTable(results []broken) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	_, _ = fmt.Fprintln(w, "| rule\t| switched off\t| in\t| the test that turns red\t| result\t| it says\t|")
	_, _ = fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range results {
		if r.control() {
			_, _ = fmt.Fprintf(w, "| \t| nothing\t| `%s`\t| all that are named below\t| %s\t| \t|\n", r.folder, colour(r))
			continue
		}
		_, _ = fmt.Fprintf(w, "| %s\t| %s\t| `%s`\t| `%s`\t| %s\t| %s\t|\n", r.rule, r.what, r.file, r.test, colour(r), inCell(r.said))
	}
	_ = w.Flush()
	return b.String()
}

// inCell cuts a complaint to what fits into a cell.
func inCell(text string) string {
	const most = 110
	text = strings.NewReplacer("|", "/", "\t", " ", "\n", " ").Replace(text)
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return text
}

func breaksReport(table string, results []broken, took time.Duration) string {
	red, off := 0, 0
	for _, r := range results {
		if !r.control() {
			off++
			if r.red {
				red++
			}
		}
	}
	return fmt.Sprintf(`# Safeguards, switched off one at a time

Each line takes one safeguard out of what the compiler reads (`+"`cmd/seckill-lab/breaks_table.go`"+` says how) and
runs the test that guards it: red means that the test noticed, and the last column is its first
complaint. With nothing taken out the same tests are green. The safeguards of the locks have a table of
their own, `+"`lockprovider/locktest/SAFEGUARDS.md`"+`. Made by `+"`make breaks`"+` in %s: %d of %d are red.

`, took.Round(time.Second), red, off) + table
}
