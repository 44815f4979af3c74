package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watcher is a Prometheus that scrapes processes once a second.
type watcher struct {
	t    *testing.T
	addr string
}

// startPrometheus starts one, with the alert rules, until the test ends.
func startPrometheus(t *testing.T, targets ...string) *watcher {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is missing: run deploy/stack/install.sh --race, or install it (Debian: the package prometheus; macOS: brew install prometheus)")
	}
	rules, err := filepath.Abs("../../deploy/prometheus")
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &watcher{t, l.Addr().String()}
	must(t, l.Close())
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%s/*.rules.yaml]
scrape_configs: [{job_name: seckill, static_configs: [{targets: ["%s"]}]}]
`, rules, strings.Join(targets, `", "`))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	out := &lockedBuffer{}
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("prometheus: %s", tailOf(out.String(), 2000))
		}
	})
	return p
}

// answer asks the API; into is what it calls data.
func (p *watcher) answer(path string, query url.Values, into any) error {
	status, body, err := call(http.MethodGet, "http://"+p.addr+path+"?"+query.Encode(), "", nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%d %s (%w)", status, body, err)
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}

// numbers are the values that a query has now; none of them is NaN.
func (p *watcher) numbers(expr string) (numbers []float64, err error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := p.answer("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && v == v {
			numbers = append(numbers, v)
		}
	}
	return numbers, nil
}

// dashboardQueries are all queries of the dashboards, variables included, by what they are of.
func dashboardQueries(t *testing.T) (exprs, variables map[string]string) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("the dashboards are %v (%v)", files, err)
	}
	exprs, variables = map[string]string{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
			Templating struct {
				List []struct{ Name, Type, Query string }
			}
		}
		must(t, json.Unmarshal(text, &board))
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				exprs[filepath.Base(file)+": "+panel.Title+": "+target.LegendFormat] = target.Expr
			}
		}
		for _, v := range board.Templating.List {
			if v.Type == "query" {
				variables[v.Name] = v.Query
			}
		}
	}
	if len(exprs) < 40 || len(variables) == 0 {
		t.Fatalf("only %d queries and %d variables", len(exprs), len(variables))
	}
	return exprs, variables
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// checkDashboards: every query has an answer while the sale goes on.
func checkDashboards(t *testing.T, i *installation, p *process) {
	prom := startPrometheus(t, strings.TrimPrefix(p.admin, "http://"))
	exprs, variables := dashboardQueries(t)
	until(t, "Prometheus has scraped twice", func() bool {
		n, err := prom.numbers(`sum(count_over_time(up[1m]))`)
		return err == nil && len(n) == 1 && n[0] >= 2
	})
	// Something has to go on: units to sell, and a worker that comes and goes, so that
	// leases change hands.
	i.operate(p, http.MethodPost, "/admin/v1/activities/a1/skus/s1/stock", `{"delta":5000,"reason":"more came in"}`)
	second := i.serve("SECKILL_ROLES=worker")
	until(t, "the second worker has partitions", func() bool {
		f := second.scrape()["seckill_lock_held"]
		return f != nil && valueOf(f) > 2
	})
	second.signal(syscall.SIGTERM)
	<-second.ended
	c := newCrowd(t, p)
	buyers := 0
	for deadline := time.Now().Add(60 * time.Second); len(exprs) > 0; {
		if time.Now().After(deadline) {
			t.Errorf("%d queries have no answer: %v", len(exprs), exprs)
			return
		}
		c.one(fmt.Sprint("late-buyer-", buyers))
		buyers++
		for of, expr := range exprs {
			asked := strings.NewReplacer("$__rate_interval", "1m", "$activity", "a1").Replace(expr)
			if strings.Contains(asked, "$") {
				t.Fatalf("%s: %s has a variable that nobody sets", of, expr)
			}
			n, err := prom.numbers(asked)
			if err != nil {
				t.Errorf("%s: %s: %v", of, asked, err)
			}
			if err != nil || len(n) > 0 {
				delete(exprs, of)
			}
		}
	}
	for name, query := range variables {
		m := labelValues.FindStringSubmatch(query)
		if m == nil {
			t.Fatalf("variable %s: %s", name, query)
		}
		var values []string
		if err := prom.answer("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &values); err != nil || len(values) == 0 {
			t.Errorf("variable %s has the values %v (%v)", name, values, err)
		}
	}
	checkSilence(t, prom)
}

// checkSilence: a healthy sale raises no alert that pages, and Prometheus takes the rules.
func checkSilence(t *testing.T, prom *watcher) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	until(t, "the rules were evaluated", func() bool {
		if err := prom.answer("/api/v1/rules", nil, &rules); err != nil {
			return false
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" {
					return false
				}
			}
		}
		return len(rules.Groups) == 2
	})
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("rule %s: %s", r.Name, r.LastError)
			}
		}
	}
	firing, err := prom.numbers(`ALERTS{alertstate="firing", severity="page", alertname=~"SeckillLawBroken|SeckillProcessDown|SeckillNoWorker|SeckillGateNotReady|SeckillFencedWrite|SeckillLockLost"}`)
	if err != nil || len(firing) > 0 {
		t.Errorf("%d alerts fire in a healthy sale (%v)", len(firing), err)
	}
}
