package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// logged is what a logger wrote, a map a line.
func logged(t *testing.T, b *lockedBuffer) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

// A burst of equal warnings costs a few lines, and the rest is told as a number; other
// messages, and news that is no warning, are not held up by it.
func TestLogFloodIsToldOnce(t *testing.T) {
	t.Parallel()
	const burst = 1000
	out := &lockedBuffer{}
	registry := prometheus.NewRegistry()
	logger, end := newLogger(out, registry)
	var wg sync.WaitGroup
	for n := range burst {
		wg.Go(func() {
			logger.With("instance", "i").Warn("gate did not answer", "activity", fmt.Sprint("a", n))
			if n%100 == 0 {
				logger.Error("a law does not hold", "law", "oversold")
				logger.Info("partition taken", "partition", n)
			}
		})
	}
	wg.Wait()
	end()
	end() // twice is once
	logger.Warn("gate did not answer")
	counts, suppressed := map[string]int{}, 0
	for _, line := range logged(t, out) {
		counts[line["msg"].(string)]++
		if line["msg"] == "log lines suppressed" && line["line"] == "gate did not answer" && line["level"] == "WARN" {
			suppressed += int(line["suppressed"].(float64))
		}
	}
	told := counts["gate did not answer"]
	if windows := counts["log lines suppressed"]; told < logBurst+1 || told > (windows+1)*logBurst+1 || suppressed+told != burst+1 {
		t.Errorf("%d lines, and %d told to be suppressed, of %d", told, suppressed, burst+1)
	}
	if counts["a law does not hold"] != 10 || counts["partition taken"] != 10 {
		t.Errorf("others were suppressed: %v", counts)
	}
	families, err := registry.Gather()
	must(t, err)
	var metric *dto.MetricFamily
	for _, f := range families {
		if f.GetName() == "seckill_log_suppressed_total" {
			metric = f
		}
	}
	if got := valueOf(metric); got != float64(suppressed) {
		t.Errorf("seckill_log_suppressed_total is %v, want %d", got, suppressed)
	}
}

// What was suppressed is told when the window is over, also if nothing follows.
func TestLogFloodIsToldInTime(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	s := newSampler(slog.NewJSONHandler(out, nil), 20*time.Millisecond)
	logger := slog.New(s)
	const burst = 10 * logBurst
	for range burst {
		logger.Warn("gate was not told")
	}
	eventually(t, "the log tells what it left out", func() (bool, string) {
		written, suppressed := 0, 0
		for _, line := range logged(t, out) {
			if n, ok := line["suppressed"].(float64); ok {
				suppressed += int(n)
			} else {
				written++
			}
		}
		return written+suppressed == burst && written < burst, fmt.Sprint(written, " written, ", suppressed, " suppressed")
	})
	s.close()
}

// The HTTP servers' own complaints, which name the peer, are one kind of line.
func TestServerErrorsAreOneKind(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	logger, end := newLogger(out, prometheus.NewRegistry())
	server := serverErrors(logger)
	for n := range 3 * logBurst {
		server.Printf("http: TLS handshake error from 192.0.2.1:%d: EOF", n)
	}
	end()
	lines := logged(t, out)
	if len(lines) > 3*logBurst-1 || lines[0]["error"] != "http: TLS handshake error from 192.0.2.1:0: EOF" {
		t.Errorf("%d lines; the first: %v", len(lines), lines[0])
	}
}
