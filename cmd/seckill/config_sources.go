package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sources is where settings come from. Every value is carried as text, as in
// the environment: YAML would read a token of digits as a number.
type sources struct {
	flags   *pflag.FlagSet  // nil: none
	environ func() []string // nil: empty
	file    string          // of --config; empty: SECKILL_CONFIG, else none
}

// configFileVar names the file where --config does not.
const configFileVar = envPrefix + "CONFIG"

// Variables with our prefix that are not settings: the path of the file, what
// `seckill lock run` gives its child, and everything of the lab.
var otherVars = []string{configFileVar, envPrefix + "LOCK_TOKEN"}

const labPrefix = envPrefix + "LAB_"

// secretFileLimit bounds what is read of a SECKILL_…_FILE.
const secretFileLimit = 64 << 10

// layer is one source, already reduced to known keys.
type layer struct {
	values   *koanf.Koanf
	origins  map[string]string // by key
	problems []error
}

func newLayer() *layer { return &layer{values: koanf.New("."), origins: map[string]string{}} }

func (l *layer) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Errorf("configuration: "+format, args...))
}

// load fills the layer; what koanf or a provider refuses is a problem of it.
func (l *layer) load(p koanf.Provider, parser koanf.Parser) {
	if err := l.values.Load(p, parser); err != nil {
		l.problem("%w", err)
	}
}

// read merges all sources, the strongest last. Every setting has a value
// afterwards. Problems of one source do not hide those of another.
func (from sources) read() (map[string]value, []error) {
	merged, values := koanf.New("."), map[string]value{}
	var problems []error
	for _, l := range []*layer{defaultLayer(), from.fileLayer(), from.envLayer(), from.flagLayer()} {
		problems = append(problems, l.problems...)
		if err := merged.Merge(l.values); err != nil {
			problems = append(problems, fmt.Errorf("configuration: merging: %w", err))
		}
		for key, origin := range l.origins {
			values[key] = value{merged.String(key), origin}
		}
	}
	return values, problems
}

func defaultLayer() *layer {
	l := newLayer()
	defaults := map[string]any{}
	for _, s := range settings {
		defaults[s.key()] = s.def
		l.origins[s.key()] = "default"
	}
	l.load(confmap.Provider(defaults, "."), nil)
	return l
}

// fileLayer reads the file of --config, or else of SECKILL_CONFIG.
func (from sources) fileLayer() *layer {
	l := newLayer()
	path := from.file
	if path == "" {
		path = from.lookup(configFileVar)
	}
	if path != "" {
		l.load(file.Provider(path), yamlFile{path, l})
	}
	return l
}

func (from sources) lookup(name string) string {
	found := ""
	if from.environ != nil {
		for _, entry := range from.environ() {
			if text, ok := strings.CutPrefix(entry, name+"="); ok {
				found = text
			}
		}
	}
	return found
}

// envLayer reads SECKILL_<name>, and SECKILL_<name>_FILE for what is not public.
func (from sources) envLayer() *layer {
	l := newLayer()
	environ := from.environ
	if environ == nil {
		environ = func() []string { return nil }
	}
	l.load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: environ,
		TransformFunc: func(name, text string) (string, any) {
			s, text, ok := l.variable(name, text)
			if !ok {
				return "", nil
			}
			return s.key(), text
		},
	}), nil)
	return l
}

// variable finds the setting and the value behind one variable; not ok means
// that it is to be left out.
func (l *layer) variable(name, text string) (s setting, value string, ok bool) {
	if slices.Contains(otherVars, name) || strings.HasPrefix(name, labPrefix) {
		return s, "", false
	}
	bare := strings.TrimPrefix(name, envPrefix)
	s, ok = settingNamed(bare)
	if !ok {
		s, ok = settingNamed(strings.TrimSuffix(bare, "_FILE"))
		if !ok || s.privacy == public {
			l.problem("%s (environment) is not a setting: %s", name, similarVars(bare))
			return s, "", false
		}
		if text, ok = l.secretFile(name, text); !ok {
			return s, "", false
		}
	}
	origin := "env " + name
	if other, twice := l.origins[s.key()]; twice && other != origin {
		l.problem("%s is given twice, by %s and by %s_FILE: keep one", s.key(), s.env(), s.env())
		return s, "", false
	}
	l.origins[s.key()] = origin
	return s, text, true
}

// secretFile reads the file that a SECKILL_…_FILE variable names. One line end
// at its end does not count, since most editors add one.
func (l *layer) secretFile(name, path string) (string, bool) {
	if path == "" {
		l.problem("%s (environment) is empty: it must be the path of a file", name)
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		l.problem("reading the file of %s: %w", name, err)
		return "", false
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, secretFileLimit+1))
	switch {
	case err != nil:
		l.problem("reading the file of %s: %w", name, err)
	case len(content) > secretFileLimit:
		l.problem("the file of %s, %s, is larger than %d bytes: is it the right one?", name, path, secretFileLimit)
	default:
		text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
		if text != "" {
			return text, true
		}
		l.problem("the file of %s, %s, is empty", name, path)
	}
	return "", false
}

// flagLayer reads the flags that settingFlags has made and the user has given.
func (from sources) flagLayer() *layer {
	l := newLayer()
	if from.flags == nil {
		return l
	}
	l.load(posflag.ProviderWithFlag(from.flags, ".", nil, func(f *pflag.Flag) (string, any) {
		mark := f.Annotations[settingAnnotation]
		if len(mark) == 0 {
			return "", nil
		}
		if f.Changed {
			l.origins[mark[0]] = "flag --" + f.Name
		}
		return mark[0], f.Value.String()
	}), nil)
	return l
}

// settingAnnotation marks a flag that is a setting and holds its YAML key.
const settingAnnotation = "seckill_setting"

// storeSettings are those that every command needs which works on the stores.
var storeSettings = []string{"POSTGRES_URL", "REDIS_URL", "NATS_URL", "ETCD_ENDPOINTS", "LOCK_BACKEND", "LOCK_TTL", "NAMESPACE", "PARTITIONS", "START_TIMEOUT"}

// settingFlags gives a command the flags of the named settings (environment
// names without prefix), of all if none is named. Values are not looked at
// before loadConfig, because pflag quotes in its errors what it refuses.
func settingFlags(cmd *cobra.Command, names ...string) {
	cmd.Flags().SortFlags = false
	for _, s := range settings {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		f := cmd.Flags().VarPF(&textFlag{word: s.kind.word}, s.flag(), "", s.doc)
		f.DefValue = s.def
		f.Annotations = map[string][]string{settingAnnotation: {s.key()}}
		if s.kind.word == "bool" {
			f.NoOptDefVal = "true"
		}
		if s.kind.choices != nil {
			_ = cmd.RegisterFlagCompletionFunc(s.flag(), cobra.FixedCompletions(s.kind.choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// textFlag takes any text as it is.
type textFlag struct{ word, text string }

// String implements pflag.Value.
func (f *textFlag) String() string { return f.text }

// Set implements pflag.Value.
func (f *textFlag) Set(text string) error { f.text = text; return nil }

// Type implements pflag.Value.
func (f *textFlag) Type() string { return f.word }

// similarKeys helps with a key that does not exist: those of its group, or all groups.
func similarKeys(key string) string {
	group, _, _ := strings.Cut(key, ".")
	near := keysBelow(group)
	if len(near) == 0 {
		groups := map[string]bool{}
		for _, s := range settings {
			first, _, _ := strings.Cut(s.key(), ".")
			groups[first] = true
		}
		return "there is " + strings.Join(slices.Sorted(maps.Keys(groups)), ", ")
	}
	return "there is " + strings.Join(near, ", ")
}

func keysBelow(group string) []string {
	var below []string
	for _, s := range settings {
		if strings.HasPrefix(s.key(), group+".") {
			below = append(below, s.key())
		}
	}
	return below
}

// similarVars does the same for a variable's name.
func similarVars(bare string) string {
	group, _, _ := strings.Cut(bare, "_")
	var near []string
	for _, s := range settings {
		if first, _, _ := strings.Cut(s.name, "_"); first == group {
			near = append(near, s.env())
		}
	}
	if len(near) == 0 {
		return "seckill config print lists the settings"
	}
	return "there is " + strings.Join(near, ", ")
}
