package main

import (
	"fmt"
	"strings"
	"time"
)

// text is the whole file.
func (m *measuring) text() string {
	var b strings.Builder
	command := "make results"
	if m.options.short {
		command = "seckill-lab results --short"
	}
	fmt.Fprintf(&b, "# What this machine gives\n\n")
	if m.options.short {
		fmt.Fprintf(&b, "**A check of the measuring, not a measurement:** every row once, for %v.\n\n", m.each)
	}
	fmt.Fprintf(&b, "N is a `net/http` handler in a process of its own that only decodes the same request and answers 202. "+
		"One `seckill serve` with both roles, leases in etcd, `header` mode, metrics on, 256 connections; servers and sender on the same machine. "+
		"What is compared takes turns, %d times, %v each; medians are shown, and a ratio is the median of the rounds' ratios. "+
		"Every load was audited: ledger, gate and log agree, and every answer is true.\n\n", m.rounds, m.each)
	for _, line := range [][2]string{
		{"command", "`" + command + "`"},
		{"commit", m.facts.commit},
		{"machine", m.facts.machine},
		{"versions", m.facts.versions},
		{"on disk", fmt.Sprintf("Postgres fsync %s, synchronous_commit %s; order log synced: %s (as the servers say)",
			m.rates.durable.Fsync, m.rates.durable.SynchronousCommit, m.rates.durable.SyncInterval)},
		{"sender", m.sender},
		{"measured", fmt.Sprintf("%s, in %v", m.began.UTC().Format("2006-01-02 15:04 UTC"), time.Since(m.began).Round(time.Second))},
	} {
		fmt.Fprintf(&b, "- %s: %s\n", line[0], line[1])
	}
	b.WriteString("\n## Against the ceiling\n\n")
	rows := [][]string{{"what", "measured", "against, in the same run", "ratio", "to reach", "reached"}}
	for _, r := range m.rows {
		reached := "yes"
		if !r.reached {
			reached = "**no**"
		}
		rows = append(rows, []string{r.what, r.measured, r.against, r.ratio, r.target, reached})
	}
	markdownTable(&b, rows)
	m.writeRounds(&b)
	m.writeGroupTable(&b)
	return b.String()
}

func (m *measuring) writeRounds(b *strings.Builder) {
	b.WriteString("\n## The rounds\n\n")
	rows := [][]string{{"series"}}
	for n := range m.rounds {
		rows[0] = append(rows[0], fmt.Sprint(n+1))
	}
	for _, series := range []struct {
		name   string
		values []float64
		format string
	}{
		{"N, answers/s", m.rates.noop, "%.0f"},
		{"admitted/s", m.rates.admitted, "%.0f"},
		{"settled, s after the load", m.rates.drain, "%.2f"},
		{"sold out, answers/s", m.rates.memory, "%.0f"},
		{"the same through the gate", m.rates.gate, "%.0f"},
		{"p99 of the 202 at half the rate, ms", m.rates.p99, "%.1f"},
		{"p99 of N at that rate, ms", m.rates.noopP99, "%.1f"},
		{"worker on a backlog, orders/s", m.drains.worker, "%.0f"},
		{"the same, decided already", m.drains.already, "%.0f"},
		{"bare loop, orders/s", m.drains.bare, "%.0f"},
		{"bare loop, decided already", m.drains.bareAlready, "%.0f"},
		{"group C, orders/s", m.drains.queue, "%.0f"},
	} {
		row := []string{series.name}
		for _, value := range series.values {
			row = append(row, fmt.Sprintf(series.format, value))
		}
		rows = append(rows, row)
	}
	markdownTable(b, rows)
	b.WriteString("\nGroup C's rate is the better one of that under its load and that of what was left after it. " +
		"The bare loop is `Ledger.Settle` alone: no log, no gate, no lease.\n")
}

func (m *measuring) writeGroupTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Six ways to sell\n\n`seckill-lab groups`: 3,000 buyers within %v, then as fast as 256 connections allow for %v. "+
		"Oversold is what is in a sold order and was not taken out of the stock, asked with psql.\n\n", m.ramp, m.full)
	rows := [][]string{{"group", "", "load", "answers/s", "p95", "admitted", "sold", "oversold", "settled/s", "pool waits", "GC pauses"}}
	for _, r := range m.groups {
		rows = append(rows, []string{
			r.group, groupNames[r.group], r.load, count(int64(r.perSecond)), short(r.p95), count(r.admitted), count(r.sold), count(r.oversold),
			count(int64(r.settled)), count(int64(r.poolWaits)), fmt.Sprintf("%d, %.1f ms", r.gc.Count, r.gc.TotalMS),
		})
	}
	markdownTable(b, rows)
}

func markdownTable(b *strings.Builder, rows [][]string) {
	for n, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if n == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}
