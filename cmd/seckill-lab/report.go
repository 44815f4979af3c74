package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

const barWidth = 40

// saleReport is what came out of a sale.
type saleReport struct {
	options runOptions
	load    *loadResult
	tally   *tally
	settled settlement
	audit   *audit
	resale  *resale // nil: orders need not be paid
}

// unsettled is how many admitted orders the ledger has not decided.
func (r *saleReport) unsettled() int64 { return max(0, r.tally.accepted.Load()-r.settled.decided) }

// soldOut says whether every unit was sold.
func (r *saleReport) soldOut() bool { return r.audit.live == r.audit.total }

// verdict is nil if everything was sold and every law holds.
func (r *saleReport) verdict() error {
	switch {
	case !r.audit.clean():
		return fmt.Errorf("run: the audit found %d violations, the first: %s",
			len(r.audit.violations)+r.audit.more, r.audit.violations[0])
	case r.unsettled() > 0:
		return fmt.Errorf("run: %d admitted orders are not settled %v after the load", r.unsettled(), settleWait)
	case !r.soldOut():
		return fmt.Errorf("run: sold %d of %d units: ask with more buyers or requests, or see the answers above",
			r.audit.live, r.audit.total)
	case r.resale != nil && r.audit.paid != r.audit.total:
		return fmt.Errorf("run: %d of %d units are paid after %s: give buyers more time or ask with more of them",
			r.audit.paid, r.audit.total, short(r.resale.took))
	}
	return nil
}

// text is the report for people.
func (r *saleReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s units, %s buyers, %s requests; leases in %s\n\n", count(r.audit.total),
		count(int64(r.options.buyers)), count(r.load.Asked), r.options.lock)
	r.writeAnswers(&b)
	b.WriteString("\n")
	r.writeCourse(&b)
	b.WriteString("\n")
	if r.resale != nil {
		r.resale.write(&b, r.options)
		b.WriteString("\n")
	}
	r.writeAudit(&b)
	return b.String()
}

// writeAnswers is one line for each kind of answer, with a bar for its share.
func (r *saleReport) writeAnswers(b *strings.Builder) {
	type line struct {
		word string
		n    int64
	}
	load := r.load
	lines := []line{
		{"asked", load.Asked},
		{"admitted (202)", load.Count("202")},
		{"repeats (200)", load.Count("200")},
		{"sold out (409)", load.Count("409 sold-out")},
	}
	for _, kind := range load.Kinds {
		if name := kind.Name; name != "202" && name != "200" && name != "409 sold-out" {
			lines = append(lines, line{name, kind.Count})
		}
	}
	for _, l := range []line{{"unknown", load.Unknown}, {"not sent", load.Unsent}} {
		if l.n > 0 {
			lines = append(lines, l)
		}
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l.word))
	}
	for _, l := range lines {
		fmt.Fprintf(b, "  %-*s  %9s  %s\n", width, l.word, count(l.n), bar(l.n, load.Asked))
	}
}

// bar draws a part of a whole in eighths of a character; what is there at all is seen.
func bar(part, whole int64) string {
	if part <= 0 || whole <= 0 {
		return ""
	}
	eighths := int(max(1, part*barWidth*8/whole))
	drawn := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		drawn += string(rune('█' + 8 - rest))
	}
	return drawn
}

// writeCourse is how the sale went in time.
func (r *saleReport) writeCourse(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("sold", "%s of %s", count(r.audit.live), count(r.audit.total))
	admitted := r.tally.accepted.Load()
	row("settled", "%s of %s admitted", count(min(r.settled.decided, admitted)), count(admitted))
	if r.soldOut() && r.resale == nil {
		row("sold out after", "%s", short(r.tally.lastAdmitted))
	}
	if r.unsettled() == 0 {
		row("all settled after", "%s", short(r.settled.last))
	}
	row("all answered after", "%s", short(r.load.Elapsed))
	row("requests/s", "%s", count(int64(r.load.Rate())))
	row("latency", "%s", percentiles(r.load.Latency))
	for _, kind := range r.load.Kinds {
		if kind.Name == "202" {
			row("  of the admitted", "%s", percentiles(kind.Latency))
		}
	}
	kept, words := r.load.RateKept()
	if r.load.Closed || !kept {
		row("pace", "%s", words)
	}
	if r.load.Unknown > 0 {
		row("unknown because", "%s; such as: %s", reasons(r.load.Reasons), r.load.Example)
	}
	_ = w.Flush() // to memory
}

func (r *saleReport) writeAudit(b *strings.Builder) {
	a := r.audit
	fmt.Fprintf(b, "  audit  total %s = stock %s + live %s; gate %s; %srejected %s, held %s\n",
		count(a.total), count(a.stock), count(a.live), count(a.gate), r.payments(), count(a.rejected), count(a.held))
	if a.clean() {
		fmt.Fprintf(b, "         clean: no unit sold twice, no buyer above the limit, every 202 in the ledger, once\n")
		return
	}
	for _, violation := range a.violations {
		fmt.Fprintf(b, "         VIOLATION %s\n", violation)
	}
	if a.more > 0 {
		fmt.Fprintf(b, "         and %d more\n", a.more)
	}
}

func (r *saleReport) payments() string {
	if r.resale == nil {
		return ""
	}
	return fmt.Sprintf("paid %s, expired %s, ", count(r.audit.paid), count(r.audit.expired))
}

// write is how the units that were not paid went on to other buyers.
func (r *resale) write(b *strings.Builder, o runOptions) {
	fmt.Fprintf(b, "  %s to pay; %d %% of the buyers do not, their orders expire, and the units are sold again\n", o.window, o.unpaid)
	for _, look := range r.course {
		fmt.Fprintf(b, "    %s\n", look)
	}
	fmt.Fprintf(b, "  all paid after %s; buyers who waited asked %s times; late payments: %s bought a new order, %s are to be refunded\n",
		short(r.took), count(r.asked), count(r.till.late.Load()), count(r.till.refunds.Load()))
}

// reasons lists why outcomes are unknown, by name.
func reasons(of map[string]int64) string {
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		words = append(words, fmt.Sprintf("%s %s", reason, count(of[reason])))
	}
	return strings.Join(words, ", ")
}

func count(n int64) string { return humanize.Comma(n) }

func percentiles(t *loadTimes) string {
	return fmt.Sprintf("p50 %s, p99 %s, longest %s", short(t.At(50)), short(t.At(99)), short(t.Max()))
}

// short keeps three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
