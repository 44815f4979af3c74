package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Every row can be made, on real servers, and every load of it passes its audit. The figures are not looked at.
func TestResultsMakeEveryRow(t *testing.T) {
	t.Parallel()
	service, err := builtService()
	if err != nil {
		t.Fatal(err)
	}
	lab, _ := program()
	temp, report := t.TempDir(), filepath.Join(t.TempDir(), "RESULTS.md")
	cmd := exec.Command(lab, "results", "--short", "--seckill", service, "--report", report)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &words, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &words)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\*\*A check of the measuring, not a measurement`, "- command: `seckill-lab results --short`", `- commit: \w+`, `- machine: \d+ cores`,
		`- versions: Go \S+, Redis \S+, Postgres \S+,.* NATS v\S+`, `fsync on, synchronous_commit on; order log synced: always`,
		`- sender: .*: \d\.\d\d`,
		`\| admitted: 202 after the log's fsync \| [\d,]+/s, all settled`, `\| sold out, one request in ten`, `\| the same, against the gate`,
		`\| p99 of the 202 at half the admitted rate \| [\d.]+ ms`, `\| longest answer in 2s`, `\| Redis per refused request \|`,
		`\| settlement of a backlog of 3,000 on one SKU \|`, `\| the same, against group C \|`, `\| orders that are decided already \|`,
		`\| Redis per order until its activity closes \| \d+ B`, `\| worker at a backlog of 5,000 orders \| \d+ MB`,
		`\| memory per request, 500 waiting \| [\d.]+ KB`, `\| p99 of a quiet sale beside one`, `\| E \| this system, etcd leases \| full \|`,
	} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("the results have no %q:\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "| yes |") + strings.Count(string(text), "| **no** |"); n != 13 {
		t.Errorf("%d rows, want 13:\n%s", n, text)
	}
	mustBeEmpty(t, temp)
}

func TestMedianOfRatios(t *testing.T) {
	if got := medianOf(ratios([]float64{10, 90, 40}, []float64{20, 100, 50})); got != 0.8 {
		t.Errorf("%v, want 0.8, the median of 0.5, 0.9 and 0.8", got)
	}
	if got := medianOf(ratios([]float64{1}, []float64{0})); got != 0 {
		t.Errorf("%v of nothing to compare with", got)
	}
}

// What was not reached is said, and what must be repeated to see it again.
func TestResultsSayWhatWasNotReached(t *testing.T) {
	m := &measuring{resultPlan: fullPlan, began: time.Now(), facts: facts{"abc", "a machine", "versions"}, sender: "0.95"}
	m.rates = rateRounds{
		noop: []float64{100, 200, 100, 100, 100}, admitted: []float64{40, 60, 38, 20, 41}, drain: []float64{0, 3, 0, 1, 1},
		memory: []float64{70, 70, 70, 70, 70}, gate: []float64{60, 60, 60, 60, 60}, p99: []float64{9, 9, 9, 9, 9}, noopP99: []float64{1, 1, 1, 1, 1},
	}
	m.rateRows()
	text := m.text()
	for _, want := range []string{
		"| admitted: 202 after the log's fsync | 40/s, all settled 1.0 s after the load | N 100/s | 0.38 N | at least 0.35 N, aim 0.45 N; settled within 2 s | yes |",
		"| 0.70 N | at least 0.75 N, aim 0.9 N | **no** |", "| 1.17 | at least 1.15 | yes |", "| 9.0 | at most 20 | yes |",
		"- command: `make results`", "- commit: abc", "| admitted/s | 40 | 60 | 38 | 20 | 41 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
}
