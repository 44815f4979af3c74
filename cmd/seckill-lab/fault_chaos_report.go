package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// summary of one backend, a few lines of Markdown.
func (r *chaosRun) summary() string {
	var b strings.Builder
	admitted, live, rejected := 0, int64(0), int64(0)
	kinds := map[string]int64{}
	for _, s := range r.sales {
		admitted += s.admitted
		live += s.verdict.live
		rejected += s.verdict.rejected
		for kind, n := range s.kinds {
			kinds[kind] += n
		}
	}
	fmt.Fprintf(&b, "\n## Leases in %s\n\n", r.lock)
	fmt.Fprintf(&b, "- kills: %d, of them %d of a pair, %d without waiting until orders flowed again; %s\n", r.kills, r.pairs, r.early, r.hitList())
	if len(r.inFlight) > 0 {
		fmt.Fprintf(&b, "- orders answered with 202 and undecided at the moment of a kill: median %d, most %d; at least %d at %d kills\n",
			median(r.inFlight), slices.Max(r.inFlight), leastInFlight, r.full)
	}
	fmt.Fprintf(&b, "- sales: %d, of %d units each, %d buyers each; %v in all\n", len(r.sales), chaosUnits, chaosBuyers, r.took.Round(time.Second))
	fmt.Fprintf(&b, "- orders answered with 202: %d; live in the ledger: %d; answered with 202 and rejected: %d\n", admitted, live, rejected)
	b.WriteString("- answers:")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, " %s %d;", kind, kinds[kind])
	}
	fmt.Fprintf(&b, "\n- violations: %d\n", len(r.findings))
	for _, finding := range r.findings {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(finding, "\n", " "))
	}
	return b.String()
}

// writeChaosReport writes what somebody needs to believe the run, and to do it again.
func writeChaosReport(path string, o chaosOptions, runs []*chaosRun) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Random kills under load

- command: `+"`seckill-lab chaos --kills %d --lock %s --seed %d`"+` (`+"`make chaos`"+` does the same)
- machine: %d cores, %s/%s, %s; %s
- faults: kill -9 of API, workers, Redis, NATS, etcd, Postgres and of pairs; each kill proven by the process ids
- judged after each sale, within %v of the last start: the rows of Postgres, the keys of Redis and the list of
  orders answered with 202; every such order decided once and live, nothing oversold, limits kept, ledger and gate
  the same order by order, nothing stranded or pending, every buyer told the truth, no process ended by itself
`, o.kills, o.lock, o.seed, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		time.Now().UTC().Format(time.DateOnly), restWithin)
	for _, run := range runs {
		b.WriteString(run.summary())
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
