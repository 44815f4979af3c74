package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant, run with -update:\n%s", path, got)
	}
}

// sampleReport is a sale of 2,000 units that went well.
func sampleReport() *saleReport {
	counter := newLoadCounter(loadConfig{Requests: 100_000, Pace: spikePace{}})
	answer := func(n int, status int, body string, latency time.Duration) {
		for range n {
			counter.sent(0, false)
			counter.answered(status, []byte(body), latency)
		}
	}
	answer(2000, 202, "", 40*time.Millisecond)
	answer(1933, 200, "", 9*time.Millisecond)
	answer(96_060, 409, `{"type":"/problems/sold-out"}`, 7*time.Millisecond)
	answer(7, 503, `{"type":"/problems/overloaded"}`, 1234567*time.Microsecond)
	counter.finish(8210 * time.Millisecond)
	tally := newTally(&crowd{})
	tally.accepted.Store(2000)
	tally.admitted = map[string]uint32{"01a22e71-893d-72dc-addc-c8749b7c2bbe": 674, "01b": 2}
	tally.lastAdmitted = 563 * time.Millisecond
	return &saleReport{
		options: runOptions{lock: "etcd", buyers: 50_000, units: 2000}, load: counter.result, tally: tally,
		settled: settlement{decided: 2000, last: 745 * time.Millisecond},
		audit:   &audit{total: 2000, live: 2000},
	}
}

func TestReport(t *testing.T) {
	good := sampleReport()
	golden(t, "report.golden", good.text())
	if err := good.verdict(); err != nil {
		t.Error(err)
	}

	bad := sampleReport()
	bad.audit.live, bad.audit.stock = 1999, 0
	bad.audit.violation("stock: total 2000 is not stock 0 plus live 1999")
	bad.audit.more = 3
	bad.settled.decided = 1998
	bad.load.Unknown, bad.load.Unsent, bad.load.Reasons["time-out"] = 2, 5, 2
	bad.load.Example = "no answer within the time-out (10s)"
	golden(t, "report-bad.golden", bad.text())
}

func TestVerdict(t *testing.T) {
	for want, spoil := range map[string]func(*saleReport){
		"1 violations, the first: x":          func(r *saleReport) { r.audit.violation("x") },
		"100 admitted orders are not settled": func(r *saleReport) { r.settled.decided = 1900 },
		"sold 5 of 2000 units":                func(r *saleReport) { r.audit.live, r.audit.stock = 5, 1995 },
	} {
		r := sampleReport()
		spoil(r)
		if err := r.verdict(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 100, ""},
		{1, 0, ""},
		{1, 1_000_000, "▏"},
		{100, 100, strings.Repeat("█", barWidth)},
		{50, 100, strings.Repeat("█", barWidth/2)},
		{7, 320, "▉"},
		{9, 320, "█▏"},
	} {
		if got := bar(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

func TestInvitation(t *testing.T) {
	s := &service{public: "127.0.0.1:1111", admin: "127.0.0.1:2222", token: "TOKEN"}
	golden(t, "invitation.golden", invitation(s, sampleReport(), "/tmp/seckill-run-1"))
}
