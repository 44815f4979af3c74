package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPacers(t *testing.T) {
	for _, c := range []struct {
		pace loadPacer
		n    int64
		due  time.Duration
	}{
		{constantPace(0), 1_000_000, 0},
		{constantPace(1000), 0, 0},
		{constantPace(1000), 2500, 2500 * time.Millisecond},
		{constantPace(0.5), 3, 6 * time.Second},
		{rampPace{0, 1000, 10 * time.Second}, 0, 0},
		{rampPace{0, 1000, 10 * time.Second}, 1250, 5 * time.Second},
		{rampPace{0, 1000, 10 * time.Second}, 5000, 10 * time.Second},
		{rampPace{0, 1000, 10 * time.Second}, 6000, 11 * time.Second},
		{rampPace{500, 500, 10 * time.Second}, 1000, 2 * time.Second},
		{rampPace{1000, 0.001, 10 * time.Second}, 3750, 5 * time.Second},
	} {
		if due := c.pace.Due(c.n); due < c.due-time.Millisecond || due > c.due+time.Millisecond {
			t.Errorf("%+v: request %d is due at %v, want %v", c.pace, c.n, due, c.due)
		}
	}
	for _, pace := range []loadPacer{rampPace{0, 5000, time.Second}, rampPace{5000, 1, time.Second}} {
		last := time.Duration(0)
		for n := range int64(5000) {
			due := pace.Due(n)
			if due < last {
				t.Fatalf("%+v: request %d is due at %v, the one before at %v", pace, n, due, last)
			}
			last = due
		}
	}
}

func TestRateKept(t *testing.T) {
	for _, c := range []struct {
		name                  string
		late, starved, unsent int64
		closed, kept          bool
		says                  string
	}{
		{name: "kept", late: 1, kept: true, says: "was kept"},
		{name: "no schedule", closed: true, late: 50, kept: true, says: "no schedule"},
		{name: "slow service", late: 50, starved: 49, says: "no connection was free"},
		{name: "slow sender", late: 50, starved: 1, says: "short of CPU"},
		{name: "unsent", closed: true, unsent: 7, says: "7 requests were not sent"},
	} {
		r := &loadResult{
			Sent: 100, Late: c.late, Starved: c.starved, Unsent: c.unsent, Closed: c.closed, Lateness: newLoadTimes(),
		}
		if kept, words := r.RateKept(); kept != c.kept || !strings.Contains(words, c.says) {
			t.Errorf("%s: %v, %q", c.name, kept, words)
		}
	}
}

func TestLoadCounterBoundsTheKinds(t *testing.T) {
	counter := newLoadCounter(loadConfig{Pace: spikePace{}})
	for i := range 1000 {
		counter.answered(500, fmt.Appendf(nil, `{"type":"/p/%d"}`, i), time.Second)
	}
	counter.finish(time.Second)
	r := counter.result
	if len(r.Kinds) != maxKinds+1 || r.Kinds[0].Name != "other" || r.Kinds[0].Count != 1000-maxKinds {
		t.Errorf("%d kinds, the first %+v", len(r.Kinds), r.Kinds[0])
	}
	if r.Count("500") != maxKinds || r.Answered != 1000 {
		t.Errorf("%d of 500, %d answered", r.Count("500"), r.Answered)
	}
}

func TestLoadTimes(t *testing.T) {
	times := newLoadTimes()
	for i := range 1000 {
		times.record(time.Duration(i+1) * time.Millisecond)
	}
	times.record(-time.Second)
	times.record(time.Hour)
	if p := times.At(50); p < 499*time.Millisecond || p > 502*time.Millisecond {
		t.Errorf("p50 %v", p)
	}
	if p := times.At(100); p < longestTime || p > longestTime+time.Second || times.Max() != time.Hour {
		t.Errorf("p100 %v, max %v", p, times.Max())
	}
}
