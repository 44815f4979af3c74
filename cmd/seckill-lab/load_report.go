package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// loadReport is what is told of a load. Without a clean audit there are no figures.
type loadReport struct {
	Target     string      `json:"target"`
	Profile    string      `json:"profile"`
	Rate       float64     `json:"rate_asked"` // requests/s at the highest; 0: as fast as the connections allow
	DurationMS float64     `json:"duration_ms"`
	Buyers     int64       `json:"buyers"`
	Repeats    float64     `json:"repeats"`
	Activities []string    `json:"activities"`
	SKUs       []string    `json:"skus"`
	Durability durability  `json:"durability"`
	Audit      *judgement  `json:"audit"`
	Figures    *loadNumber `json:"figures,omitempty"`
}

// loadNumber are the figures of a load. Times are in milliseconds, null if they are not known or did not happen.
type loadNumber struct {
	Asked       int64              `json:"asked"`
	Sent        int64              `json:"sent"`
	Unsent      int64              `json:"unsent"`
	Answered    int64              `json:"answered"`
	Unknown     int64              `json:"unknown"`
	Reasons     map[string]int64   `json:"unknown_because,omitempty"`
	Answers     []kindNumber       `json:"answers"`
	PerSecond   float64            `json:"answers_per_second"`
	RateKept    bool               `json:"rate_kept"`
	Pace        string             `json:"pace"`
	Latency     timesMS            `json:"latency_ms"`
	Admitted    int64              `json:"admitted"`
	AdmittedSec float64            `json:"admitted_per_second"`
	Settled     *int64             `json:"settled"`
	SoldOutMS   *float64           `json:"sold_out_ms"`
	DrainMS     *float64           `json:"drain_ms"`
	CPU         map[string]float64 `json:"cpu_seconds,omitempty"`
	GC          *gcPauses          `json:"gc,omitempty"`
}

type kindNumber struct {
	Kind    string  `json:"kind"`
	Count   int64   `json:"count"`
	Latency timesMS `json:"latency_ms"`
}

type timesMS struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timesOf(t *loadTimes) timesMS {
	return timesMS{ms(t.At(50)), ms(t.At(90)), ms(t.At(95)), ms(t.At(99)), ms(t.At(99.9)), ms(t.Max())}
}

func newLoadReport(t *target, o sendOptions, s *sent) *loadReport {
	r := &loadReport{
		Target: t.public, Profile: o.profile.Name, Rate: o.profile.Rate, DurationMS: ms(o.profile.Duration),
		Buyers: o.buyers, Repeats: o.repeats, Activities: t.activities, SKUs: t.skus,
		Durability: s.durable, Audit: s.audit,
	}
	if s.audit.Clean {
		r.Figures = newLoadNumber(s)
	}
	return r
}

func newLoadNumber(s *sent) *loadNumber {
	l := s.load
	f := &loadNumber{
		Asked: l.Asked, Sent: l.Sent, Unsent: l.Unsent, Answered: l.Answered, Unknown: l.Unknown, Reasons: l.Reasons,
		PerSecond: l.Rate(), Latency: timesOf(l.Latency), Admitted: s.heard.accepted.Load(),
		AdmittedSec: perSecond(s.heard.accepted.Load(), l.Elapsed),
	}
	f.RateKept, f.Pace = l.RateKept()
	for _, kind := range l.Kinds {
		f.Answers = append(f.Answers, kindNumber{kind.Name, kind.Count, timesOf(kind.Latency)})
	}
	if len(s.watch.samples) > 0 {
		last := s.watch.last()
		f.Settled, f.GC = &last.settled, &last.gc
	}
	if s.audit.soldOut() {
		at := ms(s.heard.lastAdmitted)
		f.SoldOutMS = &at
	}
	if took, ok := s.drained(); ok {
		drain := ms(took)
		f.DrainMS = &drain
	}
	if len(s.cpu) > 0 {
		f.CPU = map[string]float64{}
		for name, spent := range s.cpu {
			f.CPU[name] = spent.Seconds()
		}
	}
	return f
}

func perSecond(n int64, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return float64(n) / over.Seconds()
}

func (r *loadReport) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeTable is the report for people.
func (r *loadReport) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("target", "%s: %d activities with %d SKUs each", r.Target, len(r.Activities), len(r.SKUs))
	row("load", "%s", r.loadWords())
	row("on disk", "Postgres fsync %s, synchronous_commit %s; order log synced: %s", r.Durability.Fsync,
		r.Durability.SynchronousCommit, r.Durability.SyncInterval)
	row("audit", "%s", r.Audit.words())
	for _, violation := range r.Audit.Violations {
		row("", "VIOLATION %s", violation)
	}
	if r.Audit.More > 0 {
		row("", "and %d more", r.Audit.More)
	}
	if r.Figures != nil {
		fmt.Fprintln(w)
		r.Figures.writeRows(row)
	}
	return w.Flush()
}

func (r *loadReport) loadWords() string {
	return fmt.Sprintf("%s; up to %s buyers, %.0f%% of the requests are repeats", r.title(), count(r.Buyers), 100*r.Repeats)
}

// title says what was asked for in short.
func (r *loadReport) title() string {
	rate := "as fast as the connections allow"
	if r.Rate > 0 {
		rate = fmt.Sprintf("%s requests/s at the highest", count(int64(r.Rate)))
	}
	return fmt.Sprintf("%s, %s, for %v", r.Profile, rate, time.Duration(r.DurationMS*float64(time.Millisecond)))
}

func (j *judgement) words() string {
	switch {
	case !j.Clean:
		return "not clean: no figure of this run means anything, so none is shown"
	case j.Books && j.Answers:
		return "clean: ledger, gate and log agree, and every answer is true"
	case j.Books:
		return "clean: ledger, gate and log agree; the answers were not compared with the ledger (--postgres-url)"
	case j.Answers:
		return "clean: every answer is true; gate and log were not audited (--admin)"
	}
	return "none but of the answers by themselves: give --admin for the books, --postgres-url for the answers"
}

func (f *loadNumber) writeRows(row func(name, format string, args ...any)) {
	pace := "kept"
	if !f.RateKept {
		pace = "NOT KEPT"
	}
	row("asked", "%s; sent %s, not sent %s; rate %s", count(f.Asked), count(f.Sent), count(f.Unsent), pace)
	row("pace", "%s", f.Pace)
	row("answered", "%s, %s/s; outcome unknown %s %s", count(f.Answered), count(int64(f.PerSecond)), count(f.Unknown), reasons(f.Reasons))
	for _, kind := range f.Answers {
		row("  "+kind.Kind, "%s\t%s", count(kind.Count), kind.Latency)
	}
	row("latency", "%s", f.Latency)
	row("admitted", "%s, %s/s", count(f.Admitted), count(int64(f.AdmittedSec)))
	row("settled", "%s", orDash(f.Settled, func(n int64) string { return count(n) }))
	row("sold out after", "%s", orDash(f.SoldOutMS, msWords))
	row("drained after", "%s", orDash(f.DrainMS, msWords))
	for _, name := range slices.SortedFunc(maps.Keys(f.CPU), func(a, b string) int { return int(1000 * (f.CPU[b] - f.CPU[a])) }) {
		row("CPU of "+name, "%.2fs", f.CPU[name])
	}
	if f.GC != nil {
		row("GC of the service", "%d pauses, %.1f ms together, the longest of its life %.2f ms", f.GC.Count, f.GC.TotalMS, f.GC.MaxMS)
	}
}

func (t timesMS) String() string {
	var words []string
	for _, part := range []struct {
		name string
		at   float64
	}{{"p50", t.P50}, {"p90", t.P90}, {"p95", t.P95}, {"p99", t.P99}, {"p99.9", t.P999}, {"longest", t.Max}} {
		words = append(words, part.name+" "+msWords(part.at))
	}
	return strings.Join(words, ", ")
}

func msWords(at float64) string { return short(time.Duration(at * float64(time.Millisecond))) }

// orDash shows what is not known, or did not happen, as such.
func orDash[T any](value *T, show func(T) string) string {
	if value == nil {
		return "-"
	}
	return show(*value)
}
