package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// completed are the words that a shell is told after a Tab, without descriptions.
func completed(t *testing.T, environ []string, args ...string) []string {
	t.Helper()
	got := runWith(t, environ, append([]string{"__complete"}, args...)...)
	var words []string
	for line := range strings.Lines(got.stdout) {
		if word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); !strings.HasPrefix(word, ":") {
			words = append(words, word)
		}
	}
	if got.code != exitDone {
		t.Errorf("completing %v ended with %d: %s", args, got.code, got.stderr)
	}
	return words
}

// Tab knows the ids that the stores have, and is silent when they do not answer.
func TestCompletionOfIDs(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	for _, tc := range []struct {
		args, want string
	}{
		{"activity show ", "spring"},
		{"activity show x", ""},
		{"activity close spring ", ""},
		{"activity stock spring ", "s1 s2"},
		{"order place spring s", "s1 s2"},
		{"audit --activity ", "spring"},
		{"replay plan --activity sp", "spring"},
		{"replay run --mode ", "republish apply"},
		{"lock release ", ""},
		{"lock release job/x --token ", ""},
		{"dlq show ", ""},
		{"dlq drop letter-1 ", ""},
		{"order get ", ""},
		{"lock switch --to ", "etcd redis"},
		{"completion ", "bash zsh fish powershell"},
	} {
		if got := completed(t, i.environ, strings.Split(tc.args, " ")...); strings.Join(got, " ") != tc.want {
			t.Errorf("seckill %s<Tab>: %q, want %q", tc.args, got, tc.want)
		}
	}
	began := time.Now()
	away := append(slices.Clone(i.environ), "SECKILL_POSTGRES_URL=postgres://127.0.0.1:1/x")
	if got := completed(t, away, "activity", "show", ""); got != nil {
		t.Errorf("without stores: %q", got)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a Tab took %v without stores", took)
	}
}

// The script of each shell is printed; bash's is one that bash reads.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := runWith(t, nil, "completion", shell); got.code != exitDone || !strings.Contains(got.stdout, "__complete") {
			t.Errorf("%s: exit %d, %s%.200s", shell, got.code, got.stderr, got.stdout)
		}
	}
	read := exec.CommandContext(t.Context(), "bash", "-n")
	read.Stdin = strings.NewReader(runWith(t, nil, "completion", "bash").stdout)
	if out, err := read.CombinedOutput(); err != nil {
		t.Errorf("bash does not read the script: %v\n%s", err, out)
	}
	if got := runWith(t, nil, "completion", "tcsh"); got.code != exitUsage {
		t.Errorf("an unknown shell: exit %d", got.code)
	}
}
