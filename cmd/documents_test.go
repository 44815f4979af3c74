package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whoever reads a document types what it says: its commands, flags and targets exist,
// its links and paths lead somewhere, and the functions it names are there.
func TestDocumentsAreTrue(t *testing.T) {
	tree, commands := readTree(t), buildCommands(t)
	checkTheChecks(t, tree, commands)
	for _, file := range tree.files {
		if path.Ext(file) != ".md" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				t.Fatal(err)
			}
			d := readDocument(file, string(text))
			for _, line := range d.shell {
				for _, words := range splitShell(line.text) {
					line.check(t, commands.check(words))
				}
			}
			for _, code := range d.inline {
				code.check(t, commands.checkInline(code.text))
				code.check(t, tree.checkPath(file, code.text))
				code.check(t, tree.checkFunction(code.text))
			}
			for _, link := range d.links {
				link.check(t, tree.checkLink(d, link.text))
			}
		})
	}
}

// piece is something a document says, and where.
type piece struct {
	line int
	text string
}

func (p piece) check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("line %d: %s: %v", p.line, p.text, err)
	}
}

// document is what can be checked of a Markdown file.
type document struct {
	file     string
	shell    []piece // lines of fenced sh blocks, continued ones joined
	inline   []piece // code in backticks
	links    []piece // targets
	headings []string
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func readDocument(file, text string) document {
	d := document{file: file}
	fence, before := "", "" // language of the open block; a line that goes on
	sections := 0
	for i, line := range strings.Split(text, "\n") {
		language, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fenced && fence == "":
			fence = language + " "
		case fenced:
			fence = ""
		case fence == "sh " || fence == "bash " || fence == "shell ":
			if start, more := strings.CutSuffix(line, `\`); more {
				before += start
				continue
			}
			d.shell = append(d.shell, piece{i + 1, before + line})
			before = ""
		case fence == "":
			if strings.HasPrefix(line, "## ") {
				sections++
			}
			if path.Base(file) == "CHANGELOG.md" && sections > 1 {
				return d // a release says what was so then
			}
			d.readProse(i+1, line)
		}
	}
	return d
}

func (d *document) readProse(n int, line string) {
	if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
		slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		d.headings = append(d.headings, strings.ReplaceAll(slug, " ", "-"))
	}
	for _, match := range inlineCode.FindAllStringSubmatch(line, -1) {
		d.inline = append(d.inline, piece{n, match[1]})
	}
	for _, match := range linkTarget.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
		d.links = append(d.links, piece{n, match[1]})
	}
}

// splitShell cuts a line into commands and those into words. It knows quotes,
// comments, pipes and lists, and nothing else of the shell.
func splitShell(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	var quote rune
	endWord := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
		}
		word.Reset()
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote = r
		case r == '#' && word.Len() == 0:
			endCommand()
			return commands
		case strings.ContainsRune("|&;()", r):
			endCommand()
		case r == ' ' || r == '\t':
			endWord()
		default:
			word.WriteRune(r)
		}
	}
	endCommand()
	return commands
}

// commands are our programs, asked for their help, and the targets of make.
type commands struct {
	dir      string
	help     map[string]string // by command path
	makefile string
}

func buildCommands(t *testing.T) *commands {
	t.Helper()
	buildPrograms(t)
	c := &commands{dir: filepath.Join("..", "bin"), help: map[string]string{}}
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	c.makefile = string(text)
	return c
}

var (
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
	flagName   = regexp.MustCompile(`^--[a-z][a-z-]*`)
	shortFlag  = regexp.MustCompile(`^-[a-z]$`)
)

// checkInline checks code in running text that is a command of ours.
func (c *commands) checkInline(code string) error {
	if words := strings.Fields(code); len(words) > 1 && !strings.Contains(code, "…") {
		return c.check(words)
	}
	return nil
}

// check checks one command; what is not ours is true.
func (c *commands) check(words []string) error {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	switch program := strings.TrimPrefix(words[0], "bin/"); program {
	case "make":
		return c.checkMake(words[1:])
	case "seckill", "seckill-lab":
		return c.checkProgram(program, words[1:])
	}
	return nil
}

func (c *commands) checkMake(words []string) error {
	for _, word := range words {
		form, what := `(?m)^%s:`, "target"
		if name, _, ok := strings.Cut(word, "="); ok {
			form, what, word = `(?m)^%s *\?=`, "variable", name
		}
		if !regexp.MustCompile(fmt.Sprintf(form, regexp.QuoteMeta(word))).MatchString(c.makefile) {
			return fmt.Errorf("the Makefile has no %s %s", what, word)
		}
	}
	return nil
}

func (c *commands) checkProgram(program string, words []string) error {
	place := []string{program}
	if len(words) > 0 && words[0] == "help" {
		words = words[1:]
	}
	for _, word := range words {
		help, err := c.helpOf(place)
		if err != nil {
			return err
		}
		children := childrenOf(help)
		if program == "seckill" && strings.Contains(help, "Every setting is a flag too") {
			settings, err := c.helpOf([]string{program, "config", "print"})
			if err != nil {
				return err
			}
			help += settings
		}
		name := flagName.FindString(word)
		switch {
		case slices.Contains(children, word):
			place = append(place, word)
		case shortFlag.MatchString(word) && !regexp.MustCompile(`(?m)^ +`+word+`, `).MatchString(help),
			name != "" && !regexp.MustCompile(`(?m)^ +(-\w, )?`+name+`\b`).MatchString(help):
			return fmt.Errorf("%s has no flag %s", strings.Join(place, " "), word)
		case !strings.HasPrefix(word, "-") && len(children) > 0:
			return fmt.Errorf("%s has no subcommand %s; it has %v", strings.Join(place, " "), word, children)
		}
	}
	_, err := c.helpOf(place)
	return err
}

func (c *commands) helpOf(place []string) (string, error) {
	name := strings.Join(place, " ")
	if help, ok := c.help[name]; ok {
		return help, nil
	}
	command := exec.Command(filepath.Join(c.dir, place[0]), append(place[1:len(place):len(place)], "--help")...)
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s --help: %w", name, err)
	}
	c.help[name] = string(out)
	return c.help[name], nil
}

// childrenOf reads the list of subcommands in a help.
func childrenOf(help string) []string {
	var children []string
	listed := false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "Commands:" || line == "Available Commands:":
			listed = true
		case line == "":
			listed = false
		case listed:
			children = append(children, strings.Fields(line)[0])
		}
	}
	return children
}

// tree is what the repository holds.
type tree struct {
	files     []string        // and folders, from the root
	functions map[string]bool // Function, Type.Method and package.Function
}

func readTree(t *testing.T) *tree {
	t.Helper()
	r := &tree{functions: map[string]bool{}}
	root := ".."
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		// Other hidden folders are not the project's.
		if entry.IsDir() && (relative == "bin" || entry.Name() == "node_modules" || strings.HasPrefix(relative, ".") && relative != ".ci") {
			return filepath.SkipDir
		}
		r.files = append(r.files, relative)
		if entry.IsDir() || path.Ext(relative) != ".go" {
			return nil
		}
		return r.readFunctions(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *tree) readFunctions(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		owner := file.Name.Name
		if f.Recv != nil {
			owner = receiver(f.Recv.List[0].Type)
		} else {
			r.functions[f.Name.Name] = true
		}
		r.functions[owner+"."+f.Name.Name] = true
	}
	return nil
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	calledName = regexp.MustCompile(`^(?:([A-Za-z]\w*\.)?[A-Za-z]\w*)\(\)$`)
	testName   = regexp.MustCompile(`^Test[A-Z]\w*$`)
	pathShape  = regexp.MustCompile(`^[A-Za-z0-9_.*-]+(/[A-Za-z0-9_.*-]+)*/?$`)
	extensions = []string{".go", ".lua", ".sql", ".md", ".sh", ".yaml", ".golden"}
)

// checkFunction checks code that names a function of ours: Name(), Type.Method(),
// package.Name(), or a test.
func (r *tree) checkFunction(code string) error {
	name := strings.TrimSuffix(code, "()")
	if (calledName.MatchString(code) || testName.MatchString(code)) && !r.functions[name] {
		return fmt.Errorf("there is no function %s", name)
	}
	return nil
}

// checkPath checks code that looks like a path: one that begins at the top level, or
// ends like a file of ours. It may begin at the root, beside the document, or be the
// end of a longer one; * stands for anything.
func (r *tree) checkPath(document, code string) error {
	first, _, deep := strings.Cut(code, "/")
	ours := deep && first != "bin" && slices.Contains(topLevel, first) || slices.Contains(extensions, path.Ext(code))
	if !ours || !pathShape.MatchString(code) || r.has(document, code) {
		return nil
	}
	return fmt.Errorf("there is no such file or folder")
}

func (r *tree) has(document, name string) bool {
	name = path.Clean(name)
	beside := path.Join(path.Dir(document), name)
	depth := strings.Count(name, "/") + 1
	return slices.ContainsFunc(r.files, func(file string) bool {
		parts := strings.Split(file, "/")
		end := path.Join(parts[max(0, len(parts)-depth):]...)
		return file == beside || matches(name, end)
	})
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// checkLink checks a link to a file, a folder or a heading of the document.
func (r *tree) checkLink(d document, target string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	name, heading, _ := strings.Cut(target, "#")
	if name == "" {
		if !slices.Contains(d.headings, heading) {
			return fmt.Errorf("the document has no such heading; it has %v", d.headings)
		}
		return nil
	}
	if !slices.Contains(r.files, path.Join(path.Dir(d.file), name)) {
		return fmt.Errorf("the link leads nowhere")
	}
	return nil
}

// checkTheChecks shows that the checks find what they are for.
func checkTheChecks(t *testing.T, r *tree, c *commands) {
	t.Helper()
	d := readDocument("x.md", "# A b\n")
	for what, err := range map[string]error{
		"subcommand": c.check([]string{"seckill", "sell"}),
		"deeper":     c.check([]string{"bin/seckill", "config", "prnt"}),
		"flag":       c.check([]string{"A=b", "seckill-lab", "up", "--dri", "x"}),
		"target":     c.check([]string{"make", "runn"}),
		"variable":   c.check([]string{"make", "run", "ONCE=1"}),
		"path":       r.checkPath("x.md", "admission/htp.go"),
		"file":       r.checkPath("x.md", "reserv.lua"),
		"function":   r.checkFunction("Service.Plce()"),
		"test":       r.checkFunction("TestCase99"),
		"link":       r.checkLink(d, "READ.md"),
		"heading":    r.checkLink(d, "#b-a"),
	} {
		if err == nil {
			t.Errorf("a wrong %s is not found", what)
		}
	}
	for what, err := range map[string]error{
		"command": c.check([]string{"seckill", "config", "print", "--origin", "-o", "json"}),
		"setting": c.check([]string{"seckill", "activity", "open", "spring", "--postgres-url", "x"}),
		"make":    c.check([]string{"make", "run", "ONESHOT=1"}),
		"path":    r.checkPath("x.md", "consumer/sql/*.sql"),
		"end":     r.checkPath("x.md", "lua/reserve.lua"),
		"folder":  r.checkPath("x.md", "admission/"),
		"other":   r.checkPath("x.md", "application/json"),
		"method":  r.checkFunction("Service.Place()"),
		"heading": r.checkLink(d, "#a-b"),
	} {
		if err != nil {
			t.Errorf("a right %s is refused: %v", what, err)
		}
	}
	split := splitShell(`A=1 make run | grep 'a; b' && curl "x y" # end`)
	if got, want := fmt.Sprint(split), "[[A=1 make run] [grep a; b] [curl x y]]"; got != want {
		t.Errorf("split into %s, want %s", got, want)
	}
}
