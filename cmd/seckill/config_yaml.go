package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	keys "github.com/knadh/koanf/maps"
	"go.yaml.in/yaml/v3"
)

// yamlFile is the koanf parser of the configuration file. It takes nested keys
// and dotted ones, keeps the text of every value as written, notes its line as
// the origin, and leaves out what is not a setting after noting the problem.
type yamlFile struct {
	path string
	into *layer
}

// Unmarshal implements koanf.Parser.
func (y yamlFile) Unmarshal(content []byte) (map[string]any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // empty, or comments only
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s is not correct YAML: %s", y.path, withoutQuotes(err))
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s holds more than one YAML document: only one is read", y.path)
	}
	found := map[string]any{}
	y.walk(found, "", doc.Content[0])
	return keys.Unflatten(found, "."), nil
}

// Marshal implements koanf.Parser; nothing writes configuration.
func (yamlFile) Marshal(map[string]any) ([]byte, error) { return nil, errors.ErrUnsupported }

// walk notes in found what stands at node and below.
func (y yamlFile) walk(found map[string]any, key string, node *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	where := fmt.Sprintf("file %s:%d", y.path, node.Line)
	s, known := settingAt(key)
	if !known {
		y.group(found, key, node, where)
		return
	}
	text, ok := nodeText(node)
	if !ok {
		y.into.problem("%s (%s): must be %s", key, where, s.kind.allowed)
		return
	}
	if _, twice := found[key]; twice {
		y.into.problem("%s is given twice: %s and %s", key, y.into.origins[key], where)
		return
	}
	found[key], y.into.origins[key] = text, where
}

// group walks what stands below a key that is not a setting itself. A group
// whose settings are all commented out is null, and nothing to complain about.
func (y yamlFile) group(found map[string]any, key string, node *yaml.Node, where string) {
	isGroup := key == "" || len(keysBelow(key)) > 0
	if isGroup && (node.Kind == yaml.MappingNode || node.Tag == "!!null") {
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if name == "" { // a list or a mapping as a key, too
				y.into.problem("file %s:%d holds a key without a name", y.path, node.Content[i].Line)
				continue
			}
			y.walk(found, strings.TrimPrefix(key+"."+name, "."), node.Content[i+1])
		}
		return
	}
	if key == "" {
		y.into.problem("%s does not hold a mapping: write settings as key: value", y.path)
		return
	}
	y.into.problem("%s (%s) is not a setting: %s", key, where, similarKeys(key))
}

// nodeText is a scalar as written, or a list of scalars joined by commas.
func nodeText(node *yaml.Node) (string, bool) {
	switch {
	case node.Tag == "!!null":
		return "", true
	case node.Kind == yaml.ScalarNode:
		return node.Value, true
	case node.Kind != yaml.SequenceNode:
		return "", false
	}
	parts := make([]string, len(node.Content))
	for i, part := range node.Content {
		if part.Kind != yaml.ScalarNode {
			return "", false
		}
		parts[i] = part.Value
	}
	return strings.Join(parts, ","), true
}

var quoted = regexp.MustCompile("'[^']*'|`[^`]*`|\"[^\"]*\"")

// withoutQuotes is the text of a YAML error without what it quotes of the file.
func withoutQuotes(err error) string { return quoted.ReplaceAllString(err.Error(), "(…)") }
