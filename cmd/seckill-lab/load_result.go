package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tolerated is how late a request may leave and still count as on time.
const tolerated = 10 * time.Millisecond

// loadResult is what a run measured. Latencies are counted from the intended send time, unless Closed.
type loadResult struct {
	Asked    int64 // planned; Sent + Unsent
	Sent     int64 // written to a connection; Answered + Unknown
	Unsent   int64 // no connection in time, or the run was stopped
	Answered int64
	Unknown  int64 // sent, and no answer came

	Kinds    []*loadKind      // by count, the most frequent first
	Reasons  map[string]int64 // why outcomes are unknown
	Example  string           // the first error behind an unknown outcome or a failed connect
	Latency  *loadTimes       // of everything answered
	Lateness *loadTimes       // from the intended to the real send time
	Elapsed  time.Duration    // from the start to the last answer

	Late       int64 // sent more than `tolerated` after the intended time
	Starved    int64 // late since no connection was free: the server was slower than the pace
	Reconnects int64
	Closed     bool // no schedule: latency counts from the sending
	Stopped    bool
}

// loadKind is one kind of answer.
type loadKind struct {
	Name    string // "202", "409 sold-out"
	Status  int
	Count   int64
	Latency *loadTimes
}

// Rate is the answers per second.
func (r *loadResult) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

// Count is how many answers had this kind; a status alone ("409") counts all of that status.
func (r *loadResult) Count(name string) (n int64) {
	for _, kind := range r.Kinds {
		if kind.Name == name || strings.HasPrefix(kind.Name, name+" ") {
			n += kind.Count
		}
	}
	return n
}

// RateKept says whether the requests left when they were meant to: at most one in a hundred late, none unsent.
// If not, the words say what happened and what to do about it; figures of such a run are of another load than
// the one that was asked for.
func (r *loadResult) RateKept() (kept bool, words string) {
	if r.Closed && r.Unsent == 0 {
		return true, "no schedule: as fast as the connections allow; latency counts from the sending"
	}
	var faults []string
	if r.Unsent > 0 {
		faults = append(faults, fmt.Sprintf("%d requests were not sent", r.Unsent))
	}
	if r.Late*100 > r.Sent {
		faults = append(faults, fmt.Sprintf("%d of %d requests left more than %v late (p99 %v, worst %v)",
			r.Late, r.Sent, tolerated, r.Lateness.At(99), r.Lateness.Max()))
		if r.Starved*2 > r.Late {
			faults = append(faults, "mostly because no connection was free: the service was slower than the pace, "+
				"or it needs more connections")
		} else {
			faults = append(faults, "mostly because the sender itself was short of CPU: lower the rate or give it "+
				"a core")
		}
	}
	if len(faults) == 0 {
		return true, fmt.Sprintf("the rate was kept (lateness p99 %v)", r.Lateness.At(99))
	}
	return false, "the rate was not kept: " + strings.Join(faults, "; ")
}

// loadTimes is a histogram of durations from 1 µs to 5 min with three digits. Longer ones count as 5 min in the
// percentiles; Max is exact. Not safe for concurrent use.
type loadTimes struct {
	histogram *hdrhistogram.Histogram
	max       time.Duration
}

const longestTime = 5 * time.Minute

func newLoadTimes() *loadTimes {
	return &loadTimes{histogram: hdrhistogram.New(1, longestTime.Microseconds(), 3)}
}

func (t *loadTimes) record(d time.Duration) {
	d = max(d, 0)
	t.max = max(t.max, d)
	_ = t.histogram.RecordValue(min(d, longestTime).Microseconds()) // fails only above the limit
}

// At is the given percentile (0 to 100), 0 if nothing was recorded.
func (t *loadTimes) At(percentile float64) time.Duration {
	return time.Duration(t.histogram.ValueAtPercentile(percentile)) * time.Microsecond
}

// Max is the longest time, exactly.
func (t *loadTimes) Max() time.Duration { return t.max }

// Count is how many times were recorded.
func (t *loadTimes) Count() int64 { return t.histogram.TotalCount() }

// loadCounter files answers under their kinds.
type loadCounter struct {
	result  *loadResult
	kinds   map[string]*loadKind
	scratch []byte
}

func newLoadCounter(cfg loadConfig) *loadCounter {
	_, closed := cfg.Pace.(spikePace)
	return &loadCounter{
		result: &loadResult{
			Asked: cfg.Requests, Closed: closed, Reasons: map[string]int64{},
			Latency: newLoadTimes(), Lateness: newLoadTimes(),
		},
		kinds: map[string]*loadKind{},
	}
}

func (c *loadCounter) sent(late time.Duration, starved bool) {
	c.result.Sent++
	c.result.Lateness.record(late)
	if late > tolerated {
		c.result.Late++
		if starved {
			c.result.Starved++
		}
	}
}

// answered counts one answer and returns its kind.
func (c *loadCounter) answered(status int, body []byte, latency time.Duration) string {
	c.result.Answered++
	c.result.Latency.record(latency)
	c.scratch = kindOf(c.scratch[:0], status, body)
	kind := c.kinds[string(c.scratch)]
	if kind == nil {
		kind = c.newKind(status)
	}
	kind.Count++
	kind.Latency.record(latency)
	return kind.Name
}

// newKind bounds the memory against a server that invents problem types.
func (c *loadCounter) newKind(status int) *loadKind {
	name := string(c.scratch)
	if len(c.kinds) >= maxKinds {
		name, status = "other", 0
		if kind := c.kinds[name]; kind != nil {
			return kind
		}
	}
	kind := &loadKind{Name: name, Status: status, Latency: newLoadTimes()}
	c.kinds[name] = kind
	c.result.Kinds = append(c.result.Kinds, kind)
	return kind
}

func (c *loadCounter) unknown(reason string, err error) {
	c.result.Unknown++
	c.result.Reasons[reason]++
	c.example(err)
}

func (c *loadCounter) example(err error) {
	if c.result.Example == "" && err != nil {
		c.result.Example = err.Error()
	}
}

func (c *loadCounter) finish(elapsed time.Duration) {
	c.result.Unsent = c.result.Asked - c.result.Sent
	c.result.Elapsed = elapsed
	slices.SortStableFunc(c.result.Kinds, func(a, b *loadKind) int { return int(b.Count - a.Count) })
}
