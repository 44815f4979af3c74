package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// mostActivityFile is the size of an activity file, in bytes: a thousand SKUs are a
// tenth of it.
const mostActivityFile = 1 << 20

// activityFile is what seckill activity apply reads: the id, and beside it the body
// of PUT /admin/v1/activities/{activity}.
type activityFile struct {
	id   string
	body activityBody
}

func newActivityApplyCommand(p *program) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create a sale or change it to what a file says",
		Long: `Create a sale or change it to what a file says, in YAML or JSON:

  activity: spring
  title: Spring sale
  starts_at: 2026-12-01T20:00:00+08:00   # left out: from the moment it is opened
  ends_at: 2026-12-01T22:00:00+08:00     # left out: until it is closed
  skus:
    - {sku: s1, total: 1000, limit_per_user: 1, price: 19900}

A draft may be changed in every way; of an opened sale title and window may.`,
		Example: "  seckill activity apply -f spring.yaml\n  seckill activity apply -f - --yes",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "`file` with the activity; - reads standard input")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if path == "" {
			return wrongUsage(errors.New("activity apply: give the file with -f FILE"))
		}
		f, err := readActivityFile(path, cmd.InOrStdin())
		if err != nil {
			return wrongUsage(fmt.Errorf("activity file %s: %w", path, err))
		}
		a, err := f.body.activity(f.id)
		if err != nil {
			return wrongUsage(fmt.Errorf("activity file %s: %w", path, plainError(err)))
		}
		if err := p.askable(cmd, sure); err != nil {
			return err
		}
		return p.withStores(cmd, func(ctx context.Context, s *stores, _ Config) error {
			would := func() (string, error) { return s.wouldApply(ctx, a, path) }
			if err := p.ask(cmd, sure, would); err != nil {
				return err
			}
			_, a, err := s.operator(p.commandLogger()).put(p.onBehalf(ctx, sure), a)
			if err != nil {
				return err
			}
			return p.showActivity(a)
		})
	}
	settingFlags(cmd)
	return cmd
}

func readActivityFile(path string, stdin io.Reader) (activityFile, error) {
	var f activityFile
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return f, errors.Unwrap(err) // the caller names the file
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, mostActivityFile+1))
	if err != nil {
		return f, err
	}
	if len(data) > mostActivityFile {
		return f, fmt.Errorf("is larger than %d bytes", mostActivityFile)
	}
	return decodeActivityFile(data)
}

// decodeActivityFile checks the file by the rules of the admin API's body.
func decodeActivityFile(data []byte) (activityFile, error) {
	var f activityFile
	tree, err := decodeYAML(data)
	if err != nil {
		return f, fmt.Errorf("is not an activity: %s", oneLine(err.Error()))
	}
	id, ok := tree["activity"].(string)
	if !ok {
		return f, errors.New("has no activity: ID (in quotes, if it looks like a number)")
	}
	f.id = id
	delete(tree, "activity")
	text, err := json.Marshal(tree)
	if err != nil {
		return f, fmt.Errorf("is not an activity: %w", err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return f, err
	}
	if err := checkBody(plain); err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f.body)
}

// decodeYAML leaves times as they are written: YAML takes one without a zone for UTC,
// and whoever wrote it may have meant another.
func decodeYAML(data []byte) (map[string]any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, err
	}
	asText(&node)
	var tree map[string]any
	err := node.Decode(&tree)
	return tree, err
}

func asText(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.SetString(n.Value)
	}
	for _, part := range n.Content {
		asText(part)
	}
}

func checkBody(plain any) error {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schema := registry.Schema(reflect.TypeFor[activityBody](), false, "activity")
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, plain, &result)
	var problems []string
	for _, err := range result.Errors {
		problem := err.Error()
		var detail *huma.ErrorDetail
		if errors.As(err, &detail) {
			problem = strings.TrimPrefix(detail.Location+": "+detail.Message, ": ")
		}
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return errors.New(oneLine(strings.Join(problems, "; ")))
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// shownTime is an instant for people; empty for none.
func shownTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
