// Package prometheus_test holds the alert rules to what promtool and the code say.
package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// promtool runs the checker of Prometheus, which has to be there.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: run deploy/stack/install.sh --race, or install it (Debian: the package prometheus; macOS: brew install prometheus)")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	return string(out), err
}

func TestRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.rules.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", file); err != nil {
				t.Errorf("check rules: %v\n%s", err, out)
			}
			if out, err := promtool(t, "test", "rules", testOf(file)); err != nil {
				t.Errorf("test rules: %v\n%s", err, out)
			}
			r := read[rules](t, file)
			r.checkTexts(t)
			r.checkMetrics(t)
			r.checkTests(t, read[ruleTests](t, testOf(file)))
		})
	}
}

func testOf(file string) string { return strings.TrimSuffix(file, ".yaml") + "_test.yaml" }

// A rule that is broken must turn the test of the rules red.
func TestBrokenRulesAreFound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"threshold": {"> 0.2", "> 0.3"},
		"held":      {`reason!~"held|context|closed"`, `reason!~"context|closed"`},
		"purpose":   {`{purpose="job"}`, ""},
		"renewal":   {"increase(seckill_lock_watchdog_renew_fail_total[5m])", "seckill_lock_watchdog_renew_fail_total"},
		"lost":      {"seckill_lock_lost_total[5m]", "seckill_lock_lost_total[5m] offset 1h"},
		"fenced":    {"increase(seckill_fenced_total[5m])", "seckill_fenced_total"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := load(t, "locks.rules.yaml")
			broken := strings.Replace(text, change[0], change[1], 1)
			if broken == text {
				t.Fatalf("the rules do not have %q", change[0])
			}
			save(t, filepath.Join(dir, "locks.rules.yaml"), broken)
			save(t, filepath.Join(dir, "locks.rules_test.yaml"), load(t, "locks.rules_test.yaml"))
			if out, err := promtool(t, "test", "rules", filepath.Join(dir, "locks.rules_test.yaml")); err == nil {
				t.Errorf("not found: %s", out)
			}
		})
	}
}

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Expr        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

type ruleTests struct {
	Tests []struct {
		Alerts []struct {
			Name     string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		Queries []struct {
			Expr     string
			Expected []any `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	}
}

// checkTexts: whoever is woken up reads what happened and what to do.
func (r rules) checkTexts(t *testing.T) {
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Annotations["summary"] == "" || rule.Annotations["action"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s lacks a severity, a summary or an action", rule.Alert)
			}
		}
	}
}

var metricName = regexp.MustCompile(`\bseckill_\w+`)

// checkMetrics: each name in an expression is one that the code registers.
func (r rules) checkMetrics(t *testing.T) {
	known := load(t, "../../lockprovider/metrics.go") + load(t, "../../consumer/metrics.go")
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			for _, name := range metricName.FindAllString(rule.Expr, -1) {
				short := strings.TrimSuffix(strings.TrimPrefix(name, "seckill_lock_"), "_bucket")
				if !strings.Contains(known, `"`+short+`"`) {
					t.Errorf("%s asks for %s, which nothing registers", rule.Alert, name)
				}
			}
		}
	}
}

// checkTests: each alert is seen firing and seen silent.
func (r rules) checkTests(t *testing.T, tests ruleTests) {
	fires, clears := map[string]bool{}, map[string]bool{}
	note := func(name string, expected []any) {
		if len(expected) > 0 {
			fires[name] = true
			return
		}
		clears[name] = true
	}
	quoted := regexp.MustCompile(`alertname="(\w+)"`)
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			note(a.Name, a.Expected)
		}
		for _, q := range test.Queries {
			if m := quoted.FindStringSubmatch(q.Expr); m != nil {
				note(m[1], q.Expected)
			}
		}
	}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if !fires[rule.Alert] || !clears[rule.Alert] {
				t.Errorf("%s: seen firing %t, seen silent %t", rule.Alert, fires[rule.Alert], clears[rule.Alert])
			}
		}
	}
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	var v T
	if err := yaml.Unmarshal([]byte(load(t, file)), &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

func load(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func save(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
