package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// generated says at the top of a reference where it comes from.
const generated = "<!-- Written by make reference from the code. -->\n\n"

// reference compares a file of the reference with what the code says; -update (make
// reference) writes it.
func reference(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("../../deploy/guides/reference", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not what the code says: run make reference", path)
	}
}

// The help of every command, as it is printed.
func TestReferenceOfCommands(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Commands\n\n" + generated + "What `--help` of each command prints. Nearly every command takes the settings of\n[configuration.md](configuration.md) as flags.\n")
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		call := strings.Fields(cmd.CommandPath())[1:]
		got := runWith(t, nil, append(call, "--help")...)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("%s --help ended with %d: %s", cmd.CommandPath(), got.code, got.stderr)
		}
		help, settings, listed := strings.Cut(got.stdout, "\nSettings:\n")
		if listed {
			help += "\nSettings:\n      (all of configuration.md)\n"
			for _, s := range missingSettings(settings) {
				t.Errorf("%s lists no setting %s", cmd.CommandPath(), s)
			}
		}
		if strings.Index(help, "Examples:") > strings.Index(help, "Usage:") || !strings.Contains(help, "Examples:") {
			t.Errorf("%s does not show examples first", cmd.CommandPath())
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", cmd.CommandPath(), help)
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	root := newProgram(nil).rootCommand()
	root.InitDefaultHelpCmd() // as running it does
	visit(root)
	_, listed, _ := strings.Cut(runWith(t, nil, "--help").stdout, "\nCommands:\n")
	listed, _, _ = strings.Cut(listed, "\n\n")
	for line := range strings.Lines(listed) {
		if name := strings.Fields(line)[0]; !strings.Contains(b.String(), "\n## seckill "+name+"\n") {
			t.Errorf("seckill --help lists %s, and the reference does not", name)
		}
	}
	reference(t, "cli.md", b.String())
}

// missingSettings returns the settings that a list of flags lacks.
func missingSettings(flags string) (missing []string) {
	for _, s := range settings {
		if !strings.Contains(flags, "--"+s.flag()+" ") {
			missing = append(missing, s.key())
		}
	}
	return missing
}

// Every setting: names, default, what it takes, what it does.
func TestReferenceOfConfiguration(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + generated + `A flag goes over the environment, the environment over the YAML file (` + "`--config`" + `), the file
over the default. The setting ` + "`lock.ttl`" + ` is the environment variable ` + "`SECKILL_LOCK_TTL`" + ` and the flag
` + "`--lock-ttl`" + `. A value that is marked (file) can also be read from a file, named by the variable with
` + "`_FILE`" + ` after it: ` + "`SECKILL_ADMIN_TOKEN_FILE`" + `. Unknown names and values out of range are errors.
` + "`seckill config print --origin`" + ` shows what is in force, and from where.

| setting | environment | default | takes | what it does |
|---|---|---|---|---|
`)
	for _, s := range settings {
		def, takes := "", s.kind.allowed
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		if s.privacy != public {
			takes += " (file)"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", s.key(), s.env(), def, cell(takes), cell(s.doc))
	}
	reference(t, "configuration.md", b.String())
}

// cell keeps a text from ending a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// The OpenAPI documents that both addresses serve.
func TestReferenceOfHTTP(t *testing.T) {
	t.Parallel()
	s := newInstalled(t, "etcd").serve()
	for name, address := range map[string]string{"buyers.openapi.json": s.http, "operators.openapi.json": s.admin} {
		resp, err := testClient.Get("http://" + address + "/openapi.json")
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		_ = resp.Body.Close()
		var document map[string]any
		if err := json.Unmarshal(text, &document); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", name, resp.StatusCode, err, text)
		}
		document["info"].(map[string]any)["version"] = "as seckill version prints it"
		pretty, err := json.MarshalIndent(document, "", " ")
		must(t, err)
		reference(t, name, string(pretty)+"\n")
	}
}
