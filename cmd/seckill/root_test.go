package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write golden files and the example configuration anew")

// ran is how a command line ended.
type ran struct {
	code           int
	stdout, stderr string
}

// runWith runs a command line in an environment of its own.
func runWith(t *testing.T, environ []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProgram(func() []string { return environ })
	code := p.Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// write puts content into a file of the test's own and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// golden compares with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update if that is meant); got:\n%s", path, got)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"nothing asked", nil, exitDone, ""},
		{"help", []string{"--help"}, exitDone, ""},
		{"help of a group", []string{"config", "--help"}, exitDone, ""},
		{"version", []string{"version"}, exitDone, ""},
		{"help of a command", []string{"help", "config", "print"}, exitDone, ""},
		{"help of nothing", []string{"help", "sell"}, exitUsage, `unknown command "sell"`},
		{"help of no subcommand", []string{"help", "config", "sell"}, exitUsage, `unknown command "config sell"`},
		{"unknown command", []string{"sell"}, exitUsage, `unknown command "sell"`},
		{"unknown subcommand", []string{"config", "sell"}, exitUsage, `unknown subcommand "sell"; give one of: print`},
		{"group alone", []string{"config"}, exitUsage, "no subcommand given; give one of: print"},
		{"unknown flag", []string{"config", "print", "--lock-tll=3s"}, exitUsage, "unknown flag: --lock-tll (see seckill config print --help)"},
		{"flag without value", []string{"config", "print", "--lock-ttl"}, exitUsage, "flag needs an argument: --lock-ttl"},
		{"argument too many", []string{"version", "now"}, exitUsage, `"now"`},
		{"unknown output", []string{"version", "--output", "xml"}, exitUsage, "must be table or json"},
		{"bad setting", []string{"config", "print", "--lock-ttl=1s"}, exitUsage, "lock.ttl"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := runWith(t, nil, tc.args...)
			if got.code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", got.code, tc.code, got.stderr)
			}
			if !strings.Contains(got.stderr, tc.stderr) {
				t.Errorf("stderr %q lacks %q", got.stderr, tc.stderr)
			}
			if tc.code == exitDone && got.stderr != "" {
				t.Errorf("words on stderr without need: %s", got.stderr)
			}
			if tc.code != exitDone && (got.stdout != "" || strings.Count(got.stderr, "\n") != 1) {
				t.Errorf("want one line on stderr and nothing on stdout, got %q and %q", got.stderr, got.stdout)
			}
		})
	}
}

func TestErrorsChooseTheExitCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("redis is away")
	for _, tc := range []struct {
		name string
		err  error
		code int
	}{
		{"none", nil, exitDone},
		{"plain", plain, exitFailed},
		{"usage", wrongUsage(plain), exitUsage},
		{"finding", finding(plain), exitFinding},
		{"joined", errors.Join(plain, finding(plain)), exitFinding},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := &cobra.Command{RunE: func(*cobra.Command, []string) error { return tc.err }}
			cmd.SetArgs([]string{})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			began := markBegin(cmd)
			err := cmd.ExecuteContext(context.Background())
			p := newProgram(nil)
			p.stderr = new(bytes.Buffer)
			if got := p.end(err); got != tc.code || !*began {
				t.Errorf("code %d, want %d; began %v", got, tc.code, *began)
			}
		})
	}
}

func TestHelpShowsExamplesFirst(t *testing.T) {
	t.Parallel()
	got := runWith(t, nil, "config", "print", "--help")
	examples, usage := strings.Index(got.stdout, "Examples:"), strings.Index(got.stdout, "Usage:")
	if examples < 0 || usage < examples {
		t.Errorf("examples are not first:\n%s", got.stdout)
	}
	for _, s := range settings {
		if !strings.Contains(got.stdout, "--"+s.flag()+" ") {
			t.Errorf("no --%s in the help", s.flag())
		}
	}
}

// Every command has an example, and every example is a command that exists.
func TestExamplesAreReal(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	root := newProgram(nil).rootCommand()
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			_, call, found := strings.Cut(line, "seckill ")
			if !found {
				continue
			}
			if _, _, err := root.Find(strings.Fields(call)); err != nil {
				t.Errorf("example of %s: %v", cmd.CommandPath(), err)
			}
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(root)
}

// What scripts of operators rely on: every command and flag that is promised.
var promised = `
activity apply --file --yes --reason --actor
activity show
activity list
activity open
activity pause
activity resume
activity close
activity stock --delta --reason --key
order place --user --quantity --key
order get
order list --activity --user --status
order cancel --reason
replay plan --activity --sku --user --order --partition --from-seq --to-seq --since --until --source --mode
replay run --activity --sku --user --order --partition --from-seq --to-seq --since --until --source --mode --rate --resume
dlq list
dlq show
dlq replay
dlq drop --reason
log info
log trim --before-seq
lock list
lock release --token
lock run
lock switch --to
audit --activity --wait
reconcile --activity --dry-run
doctor
migrate
config print --origin
version
serve`

func TestPromisedCommandsAreThere(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(strings.TrimSpace(promised)) {
		root := newProgram(nil).rootCommand()
		var path []string
		for _, word := range strings.Fields(line + " --output --config") {
			flag, isFlag := strings.CutPrefix(word, "--")
			if !isFlag {
				path = append(path, word)
				continue
			}
			cmd, rest, err := root.Find(path)
			if err != nil || len(rest) > 0 || !cmd.Runnable() {
				t.Errorf("there is no command %v: %v", path, err)
				break
			}
			if cmd.Flag(flag) == nil {
				t.Errorf("%s has no flag %s", cmd.CommandPath(), word)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := runWith(t, []string{"SECKILL_NONSENSE=1"}, "version", "--output", "json")
	var v buildVersion
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
		t.Fatalf("%v in %q", err, got.stdout)
	}
	if v.Version == "" || v.Commit == "" || !strings.HasPrefix(v.Go, "go") {
		t.Errorf("incomplete: %+v", v)
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	p := newProgram(nil)
	if got := p.actorName(); !strings.Contains(got, "@") {
		t.Errorf("default actor %q is not user@host", got)
	}
	p.actor = "night shift"
	if got := p.actorName(); got != "night shift" {
		t.Errorf("actor %q", got)
	}
}
