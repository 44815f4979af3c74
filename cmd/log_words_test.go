package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logWords are the keys of the log's lines: the words of metrics and documents, one a
// thing. No buyer, Idempotency-Key, URL or secret is among them.
var logWords = []string{
	"acknowledged", "activity", "after", "appended", "breaks", "code", "context_timeout_enabled", "detail", "epoch", "error", "give",
	"instance", "job", "law", "max_retries", "mend", "method", "order", "orders", "partition", "path", "payment", "reason",
	"settled", "sku", "store", "term", "token", "told",
}

var logLevels = []string{"Debug", "Info", "Warn", "Error"}

// Whoever reads the log, a chart and a guide meets the same words; and equal lines have
// equal messages, so that they can be counted.
func TestLogHasOneWordPerThing(t *testing.T) {
	found := 0
	for _, folder := range []string{"../admission", "../consumer", "../lockprovider", "seckill"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && logs(call) {
					found++
					checkLogLine(t, set.Position(call.Pos()).String(), call)
				}
				return true
			})
		}
	}
	if found < 20 {
		t.Errorf("only %d lines are logged: the test does not find them", found)
	}
}

// logs tells whether a call writes a line: x.logger.Warn, logger.Error, x.Logger.Info.
func logs(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(logLevels, method.Sel.Name) || len(call.Args) == 0 {
		return false
	}
	switch on := method.X.(type) {
	case *ast.Ident:
		return strings.EqualFold(on.Name, "logger")
	case *ast.SelectorExpr:
		return strings.EqualFold(on.Sel.Name, "logger")
	}
	return false
}

func checkLogLine(t *testing.T, at string, call *ast.CallExpr) {
	if message, ok := call.Args[0].(*ast.BinaryExpr); ok {
		if _, ok := message.X.(*ast.BasicLit); !ok {
			t.Errorf("%s: the message does not begin with what it is about", at)
		}
	} else if _, ok := call.Args[0].(*ast.BasicLit); !ok {
		t.Errorf("%s: the message is not the same every time", at)
	}
	for i := 1; i < len(call.Args); i += 2 {
		literal, ok := call.Args[i].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s: argument %d is not a word", at, i)
			continue
		}
		word, err := strconv.Unquote(literal.Value)
		if err != nil || !slices.Contains(logWords, word) {
			t.Errorf("%s: %s is not one of the log's words %v", at, literal.Value, logWords)
		}
	}
}
