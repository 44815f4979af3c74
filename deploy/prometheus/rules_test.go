// Package prometheus_test holds the alert rules to what promtool and the code say.
package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// An alert that never fires, or always, must turn the test of the rules red.
func TestDeadAndStuckAlertsAreFound(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for n, alert := range read[rules](t, file).all() {
			for name, expr := range map[string]string{"never": "vector(1) < 0", "always": "vector(1) > 0"} {
				t.Run(alert.Alert+" "+name, func(t *testing.T) {
					t.Parallel()
					var broken map[string]any
					if err := yaml.Unmarshal([]byte(load(t, file)), &broken); err != nil {
						t.Fatal(err)
					}
					group := broken["groups"].([]any)[0].(map[string]any)
					group["rules"].([]any)[n].(map[string]any)["expr"] = expr
					text, err := yaml.Marshal(broken)
					if err != nil {
						t.Fatal(err)
					}
					dir := t.TempDir()
					save(t, filepath.Join(dir, file), string(text))
					save(t, filepath.Join(dir, testOf(file)), testsOf(t, file, alert.Alert))
					if out, err := promtool(t, "test", "rules", filepath.Join(dir, testOf(file))); err == nil {
						t.Errorf("not found: %s", out)
					}
				})
			}
		}
	}
}

// testsOf is the test of a file, cut down to what is about one alert.
func testsOf(t *testing.T, file, alert string) string {
	t.Helper()
	all := read[map[string]any](t, testOf(file))
	all["tests"] = slices.DeleteFunc(all["tests"].([]any), func(one any) bool {
		text, err := yaml.Marshal(one)
		return err == nil && !strings.Contains(string(text), alert)
	})
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every alert leads to a section of the runbook, and every section is of an alert.
func TestRunbookHasEveryAlert(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(load(t, "../guides/runbook.md"), "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		sections[title] = text
	}
	for _, file := range files {
		for _, alert := range read[rules](t, file).all() {
			text := sections[alert.Alert]
			for _, part := range []string{"*Means.*", "*Look.*", "*Do.*"} {
				if !strings.Contains(text, part) {
					t.Errorf("the runbook's section of %s has no %s", alert.Alert, part)
				}
			}
			if want := "deploy/guides/runbook.md#" + strings.ToLower(alert.Alert); alert.Annotations["runbook_url"] != want {
				t.Errorf("%s leads to %q, want %q", alert.Alert, alert.Annotations["runbook_url"], want)
			}
			delete(sections, alert.Alert)
		}
	}
	for title := range sections {
		t.Errorf("the runbook has a section %s, and there is no such alert", title)
	}
}

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
	Groups []struct{ Rules []alert }
}

type alert struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// all is the alerts of a file, which has one group.
func (r rules) all() []alert { return r.Groups[0].Rules }

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

// checkMetrics: each name in an expression is one that a process shows.
func (r rules) checkMetrics(t *testing.T) {
	known := load(t, "../guides/metrics.md")
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			for _, name := range metricName.FindAllString(rule.Expr, -1) {
				if !strings.Contains(known, "`"+strings.TrimSuffix(name, "_bucket")+"`") {
					t.Errorf("%s asks for %s, which no process shows", rule.Alert, name)
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
