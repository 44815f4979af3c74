package cmd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is for one document: a stack, a service and some dozens of commands.
const patience = 4 * time.Minute

// Every fenced sh block of every document is run, in order, in one shell, on a real
// stack of the document's own. A comment before a block says how:
//
//	<!-- sh: background -->  it goes on while others run, and has said "ready"
//	<!-- sh: exit 3 -->      it ends with this status instead of 0
//	<!-- sh: prints WORDS -->  its output has these words; may stand beside the others
//	<!-- sh: given NAME -->  what a reader has at this point; see documents_given.sh
//	<!-- sh: TestName -->    too long, or not for this machine: the test that runs it
//
// Addresses and folders that a document calls by fixed names are replaced by free ones.
func TestDocumentsRun(t *testing.T) {
	tree := readTree(t)
	buildPrograms(t)
	for _, file := range tree.files {
		if path.Ext(file) != ".md" || path.Base(file) == "CHANGELOG.md" {
			continue
		}
		blocks := readBlocks(t, tree, file)
		if !slices.ContainsFunc(blocks, func(b block) bool { return b.by == "" }) {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if out, err := runBlocks(t, file, blocks); err != nil {
				t.Errorf("%v\n%s", err, out[max(0, len(out)-6000):])
			}
		})
	}
}

// A document that says what is not so is found.
func TestDocumentsRunFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]block{
		"a command that fails":        {text: "false\ntrue\n", status: "0"},
		"a pipe that fails":           {text: "false | cat\n", status: "0"},
		"a command that is not there": {text: "sekill version\n", status: "0"},
		"words that are not printed":  {text: "echo sold\n", status: "0", prints: []string{"sold out"}},
		"another status":              {text: "true\n", status: "3"},
		"a service that ends":         {text: "echo hello\n", background: true},
	} {
		if out, err := runBlocks(t, "x.md", []block{b}); err == nil || !strings.Contains(string(out), "failed at x.md:0") {
			t.Errorf("%s is not found: %v %s", name, err, out)
		}
	}
	good := []block{
		{text: "name=lamp\n", status: "0"},
		{text: "echo ready; sleep 60\n", background: true},
		{text: "echo $name; (exit 3)\n", status: "3", prints: []string{"lamp"}},
	}
	if out, err := runBlocks(t, "x.md", good); err != nil {
		t.Errorf("what is right is refused: %v %s", err, out)
	}
}

// block is one fenced block of commands, and how it is run.
type block struct {
	line       int
	text       string
	given      []string
	background bool
	by         string // the test that runs it instead
	status     string
	prints     []string
}

var directive = regexp.MustCompile(`^\s*<!-- sh: (.*) -->$`)

func readBlocks(t *testing.T, tree *tree, file string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	next, inside := block{status: "0"}, false
	for i, line := range strings.Split(string(text), "\n") {
		language, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		m := directive.FindStringSubmatch(line)
		switch {
		case m != nil && !inside:
			next.direct(t, tree, fmt.Sprintf("%s:%d", file, i+1), m[1])
		case fenced && !inside && slices.Contains([]string{"sh", "bash", "shell"}, language):
			inside, next.line = true, i+1
		case fenced && inside:
			blocks = append(blocks, next)
			next, inside = block{status: "0"}, false
		case inside:
			next.text += line + "\n"
		}
	}
	return blocks
}

// direct reads the comment before a block.
func (b *block) direct(t *testing.T, tree *tree, place, text string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "; ") {
		word, rest, _ := strings.Cut(part, " ")
		switch {
		case part == "background":
			b.background = true
		case word == "given":
			b.given = append(b.given, "given_"+strings.ReplaceAll(rest, " ", "_"))
		case word == "exit":
			b.status = rest
		case word == "prints":
			b.prints = append(b.prints, rest)
		case testName.MatchString(part) && tree.functions[part]:
			b.by = part
		default:
			t.Errorf("%s: %q is no directive, or no test of this name exists", place, part)
		}
	}
}

// script is the document as one shell script.
func script(file string, blocks []block) string {
	var s strings.Builder
	s.WriteString("set -euo pipefail\n. \"$GIVEN\"\n")
	for i, b := range blocks {
		for _, given := range b.given {
			fmt.Fprintf(&s, "at='%s:%d %s'\n%s\n", file, b.line, given, given)
		}
		fmt.Fprintf(&s, "at='%s:%d'\nout=out.%d\n", file, b.line, i)
		switch {
		case b.by != "":
			continue
		case b.background:
			fmt.Fprintf(&s, "(\n%s) >$out 2>&1 &\nawait_ready\n", b.text)
			continue
		case b.status == "0":
			fmt.Fprintf(&s, "{\n%s} >$out 2>&1\n", b.text)
		default:
			fmt.Fprintf(&s, "set +e\n{\n%s} >$out 2>&1\nended $? %s\nset -e\n", b.text, b.status)
		}
		for _, words := range b.prints {
			fmt.Fprintf(&s, "printed '%s'\n", words)
		}
	}
	return s.String()
}

func runBlocks(t *testing.T, file string, blocks []block) ([]byte, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "doc-") // short: sockets of the servers are under it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	work := checkout(t, dir)
	buyers, operators := freeAddress(t), freeAddress(t)
	text := strings.NewReplacer(
		"/tmp/sale", dir+"/sale", "127.0.0.1:8080", buyers, "127.0.0.1:8081", operators,
	).Replace(script(file, blocks))
	given, err := filepath.Abs("documents_given.sh")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = work
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") }),
		"GIVEN="+given, "SALE="+dir+"/sale", "BUYERS_AT="+buyers, "OPERATORS_AT="+operators)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second // servers are told to stop when the shell ends
	return cmd.CombinedOutput()
}

// checkout is a folder that looks like the top of the repository, in which a document
// may write.
func checkout(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	for _, folder := range []string{".", "deploy"} {
		if err := os.MkdirAll(filepath.Join(work, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := filepath.Join(folder, e.Name()); name != "deploy" && name != ".git" && name != "deploy/secrets" {
				if err := os.Symlink(filepath.Join(root, name), filepath.Join(work, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return work
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// built makes bin/ as a reader does.
var built = sync.OnceValue(func() error {
	out, err := exec.Command("make", "-C", "..", "build").CombinedOutput()
	if err != nil {
		return fmt.Errorf("make build: %w\n%s", err, out)
	}
	return nil
})

func buildPrograms(t *testing.T) {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
}
