package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics that checks from outside rely on, by name: type, and labels in order.
var promisedMetrics = map[string]string{
	"seckill_admission_total":                "counter outcome",
	"seckill_admission_seconds":              "histogram",
	"seckill_admission_batch_size":           "histogram",
	"seckill_append_seconds":                 "histogram",
	"seckill_settle_total":                   "counter outcome",
	"seckill_settle_seconds":                 "histogram",
	"seckill_settle_batch_size":              "histogram",
	"seckill_order_seconds":                  "histogram",
	"seckill_backlog_orders":                 "gauge partition",
	"seckill_oldest_unsettled_seconds":       "gauge",
	"seckill_undecided_orders":               "gauge",
	"seckill_release_due":                    "gauge",
	"seckill_dead_letters":                   "gauge",
	"seckill_redelivered_total":              "counter",
	"seckill_fenced_total":                   "counter",
	"seckill_stock":                          "gauge activity sku source",
	"seckill_gate_state":                     "gauge activity state",
	"seckill_law_violations":                 "gauge",
	"seckill_build_info":                     "gauge commit go version",
	"seckill_lock_acquire_total":             "counter backend",
	"seckill_lock_acquire_fail_total":        "counter backend reason",
	"seckill_lock_wait_seconds":              "histogram backend",
	"seckill_lock_hold_seconds":              "histogram backend purpose",
	"seckill_lock_held":                      "gauge backend",
	"seckill_lock_watchdog_renew_total":      "counter backend",
	"seckill_lock_watchdog_renew_fail_total": "counter backend",
	"seckill_lock_remaining_ratio":           "histogram backend",
	"seckill_lock_lost_total":                "counter backend reason",
}

// scrape reads /metrics of a process.
func (p *process) scrape() map[string]*dto.MetricFamily {
	p.t.Helper()
	status, body, err := call(http.MethodGet, p.admin+"/metrics", "", nil)
	if err != nil || status != http.StatusOK {
		p.t.Fatalf("GET /metrics: %d (%v)", status, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	must(p.t, err)
	return families
}

func kindOf(f *dto.MetricFamily) string {
	words := []string{strings.ToLower(f.GetType().String())}
	for _, l := range f.GetMetric()[0].GetLabel() {
		words = append(words, l.GetName())
	}
	return strings.Join(words, " ")
}

// valueOf is the value of the first series that has the label values, in any order.
func valueOf(f *dto.MetricFamily, labels ...string) float64 {
	for _, m := range f.GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			has = append(has, l.GetValue())
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			continue
		}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue()
		case dto.MetricType_HISTOGRAM:
			return float64(m.GetHistogram().GetSampleCount())
		default:
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

// A process that has served a sale shows every promised metric, and the figures of the
// sale; the reference has them all; every query of the dashboards has an answer.
func TestMetricsOfASale(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	p := i.serve()
	i.open(p, 20)
	c := newCrowd(t, p)
	c.buy(30)
	i.audit(20)
	until(t, "the gauges show the sale", func() bool {
		f := p.scrape()["seckill_stock"]
		return f != nil && valueOf(f, "a1", "s1", "ledger") == 0 && valueOf(f, "a1", "s1", "gate") == 0
	})
	t.Run("promised", func(t *testing.T) { checkPromised(t, p.scrape()) })
	t.Run("reference", func(t *testing.T) { checkReference(t, p.scrape()) })
	t.Run("dashboards", func(t *testing.T) { checkDashboards(t, i, p) })
	t.Run("pprof", func(t *testing.T) { checkProfiles(t, i, p) })
}

func checkPromised(t *testing.T, families map[string]*dto.MetricFamily) {
	for name, kind := range promisedMetrics {
		f := families[name]
		if f == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		if got := kindOf(f); got != kind {
			t.Errorf("%s is a %s, want %s", name, got, kind)
		}
		checkUnit(t, f)
	}
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"seckill_settle_total", []string{"confirmed"}, 20},
		{"seckill_settle_total", []string{"rejected"}, 0},
		{"seckill_admission_total", []string{"internal"}, 0},
		{"seckill_order_seconds", nil, 20},
		{"seckill_undecided_orders", nil, 0},
		{"seckill_law_violations", nil, 0},
		{"seckill_dead_letters", nil, 0},
		{"seckill_gate_state", []string{"a1", "open"}, 1},
		{"seckill_gate_state", []string{"a1", "rebuilding"}, 0},
		{"seckill_build_info", nil, 1},
		{"seckill_lock_lost_total", []string{"etcd", "expired"}, 0},
	} {
		if got := valueOf(families[want.name], want.labels...); got != want.value {
			t.Errorf("%s%v is %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	for _, refused := range []string{"accepted", "sold-out"} {
		if valueOf(families["seckill_admission_total"], refused) < 10 {
			t.Errorf("too few buyers were told %s", refused)
		}
	}
	if n := len(families["seckill_backlog_orders"].GetMetric()); n != 16 {
		t.Errorf("a backlog of %d partitions", n)
	}
}

// checkUnit: what counts ends with _total, times are in seconds, ratios within 0 to 1.
func checkUnit(t *testing.T, f *dto.MetricFamily) {
	name := f.GetName()
	if counts := f.GetType() == dto.MetricType_COUNTER; counts != strings.HasSuffix(name, "_total") {
		t.Errorf("%s is a %s", name, f.GetType())
	}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		n, sum := float64(h.GetSampleCount()), h.GetSampleSum()
		switch {
		case n == 0:
		case strings.HasSuffix(name, "_seconds") && (sum/n <= 0 || sum/n > 120):
			t.Errorf("%s: %v on the average are no seconds", name, sum/n)
		case strings.HasSuffix(name, "_ratio") && (sum/n < 0 || sum/n > 1):
			t.Errorf("%s: %v on the average is no ratio", name, sum/n)
		}
	}
}

// checkReference compares the guide with what the process says of itself.
func checkReference(t *testing.T, families map[string]*dto.MetricFamily) {
	const file = "../../deploy/guides/metrics.md"
	want := metricsReference(families)
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o600))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s is not what the process says of its metrics; write it with go test -run TestMetricsOfASale ./cmd/seckill -update:\n%s", file, want)
	}
}

const referenceHead = `# Metrics

Every process serves these on ` + "`/metrics`" + ` of the admin address. This page is written from what
a process says of itself after a sale, and a test compares the two. Beside them are Go's own
(` + "`go_`, `process_`" + `). No buyer, order or Idempotency-Key is ever in a label.

Time is in seconds, stock in units. Counters begin with 0 for every value of their labels, so
that the first event is an increase. What is said of the installation is shown by every worker
alike: take the maximum over the processes, never the sum.
`

var referenceParts = []struct{ title, prefix string }{
	{"Leases", "seckill_lock_"},
	{"Buyers and the gate (role api)", "seckill_admission_ seckill_append_ seckill_refused_ seckill_waiting_ seckill_order_streams"},
	{"Settlement (role worker)", "seckill_settle_ seckill_order_seconds seckill_redelivered_ seckill_fenced_"},
	{"The process", "seckill_build_ seckill_ledger_ seckill_log_ seckill_admin_refused_"},
	{"The installation (role worker)", "seckill_"},
}

func metricsReference(families map[string]*dto.MetricFamily) string {
	parts := make([]strings.Builder, len(referenceParts))
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "seckill_") {
			continue
		}
		part := slices.IndexFunc(referenceParts, func(p struct{ title, prefix string }) bool {
			return slices.ContainsFunc(strings.Fields(p.prefix), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		})
		kind, labels, _ := strings.Cut(kindOf(families[name]), " ")
		_, _ = fmt.Fprintf(&parts[part], "| `%s` | %s | %s | %s |\n", name, kind, strings.ReplaceAll(labels, " ", ", "), families[name].GetHelp())
	}
	text := referenceHead
	for n, p := range referenceParts {
		text += "\n## " + p.title + "\n\n| name | type | labels | says |\n|---|---|---|---|\n" + parts[n].String()
	}
	return text
}

// checkProfiles: a stranger gets no profile, who may change things does.
func checkProfiles(t *testing.T, i *installation, p *process) {
	for path, says := range map[string]string{
		"/debug/pprof":                   "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/heap":              "",
		"/debug/pprof/profile?seconds=1": "",
		"/debug/pprof/trace?seconds=0.1": "",
	} {
		for token, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer " + i.setting("SECKILL_ADMIN_TOKEN"): 200} {
			status, body, err := call(http.MethodGet, p.admin+path, "", map[string]string{"Authorization": token})
			if err != nil || status != want || want == 200 && !strings.Contains(string(body), says) {
				t.Errorf("GET %s with %q: %d, want %d (%v)", path, token, status, want, err)
			}
		}
	}
	if status, _, err := call(http.MethodGet, p.admin+"/debug/pprof/cmdline", "", map[string]string{"Authorization": "Bearer " + i.setting("SECKILL_ADMIN_TOKEN")}); status != http.StatusNotFound || err != nil {
		t.Errorf("the command line is shown: %d (%v)", status, err)
	}
}
