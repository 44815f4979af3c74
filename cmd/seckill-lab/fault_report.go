package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// line is the outcome for people, a line or a few.
func (o *outcome) line() string {
	var b strings.Builder
	state := "ok  "
	if o.failed() {
		state = "FAIL"
	}
	fmt.Fprintf(&b, "%s %s (%s, seed %d, round %d) %.1fs: %d in flight, %d answered with 202, %d units sold",
		state, o.scenario.name, o.lock, o.seed, o.round, o.took.Seconds(), o.inFlight, o.admitted, o.units)
	if o.verdict != nil {
		fmt.Fprintf(&b, ", %d rejected, at rest after %.1fs", o.verdict.rejected, o.verdict.rested.Seconds())
	}
	fmt.Fprintf(&b, "\n     proof: %s\n", o.proof)
	if o.note != "" {
		fmt.Fprintf(&b, "     note: %s\n", o.note)
	}
	for _, text := range o.findings() {
		fmt.Fprintf(&b, "     ! %s\n", text)
	}
	if o.failed() {
		fmt.Fprintf(&b, "     evidence: %s\n     again: %s\n", o.evidence, o.command())
	}
	return b.String()
}

// writeFaultReport writes the outcomes as Markdown.
func writeFaultReport(path string, o faultOptions, outcomes []*outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Faults\n\n`seckill-lab fault --lock %s --seed %d --rounds %d`, %s, %d cores, %s/%s.\n\n",
		strings.Join(o.locks, " and "), o.seed, o.rounds, time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	b.WriteString("| scenario | lock | in flight | proof | answered 202 | sold | rejected | rest after | violations |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, one := range outcomes {
		rejected, rest, violations := "-", "-", strings.Join(one.findings(), "; ")
		if one.verdict != nil {
			rejected = fmt.Sprint(one.verdict.rejected)
			rest = fmt.Sprintf("%.1f s", one.verdict.rested.Seconds())
		}
		if violations == "" {
			violations = "0"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %d | %s | %s | %s |\n", one.scenario.name, one.lock, one.inFlight,
			one.proof, one.admitted, one.units, rejected, rest, strings.ReplaceAll(violations, "\n", " "))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
