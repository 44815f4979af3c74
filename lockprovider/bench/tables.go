package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// markdown writes all tables, what they were measured on, and the targets.
func (r results) markdown(p plan) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Lock libraries side by side\n")
	say("Written by `make bench-locks`: one run, the same servers, the libraries in turn in random")
	say("order. The machine also ran the servers: Redis with its append-only log synced every second,")
	say("and one etcd that syncs each write. Time to live %v.\n", ttl)
	say("%s\n%s.\n", r.on, versions())
	say("rueidislock takes one key (not a majority of three) and no notifications of its own writes.")
	say("redsync has one pool and waits by its default, asking again after 50 to 250 ms.")

	say("\n## Acquire and release, uncontended\n")
	say("%d pairs each. The last column compares with the fastest other library on the same store.\n", p.rounds*p.cycles)
	say("| store | library | median | p99 | × fastest other |\n|---|---|---|---|---|")
	for _, s := range r.uncontended {
		say("| %s | %s | %s | %s | %.2f |", s.store, s.name, shown(s.at(.5)), shown(s.at(.99)), timesFastest(r.uncontended, s))
	}

	say("\n## Hand-off between two processes\n")
	say("From before the release in one process to the acquisition in the other, which waits. %d each.\n", p.handoffs)
	say("| store | library | waits by | median | p99 |\n|---|---|---|---|---|")
	for _, s := range r.handoff {
		by := "notification"
		if s.polls {
			by = "polling"
		}
		say("| %s | %s | %s | %s | %s |", s.store, s.name, by, shown(s.at(.5)), shown(s.at(.99)))
	}

	say("\n## %d waiters of %d processes on one lock\n", crowdProcesses*crowdEach, crowdProcesses)
	say("The lock goes from one to the next %d times. Requests as the store counts them, renewals on", p.releases)
	say("etcd left out; on etcd those for opening and closing watches are among them. The lock is")
	say("passed on at once, so a library that polls asks in the seconds before and after it.\n")
	say("| store | library | requests per second while all wait | requests per release | median from release to next holder |\n|---|---|---|---|---|")
	for _, c := range r.crowd {
		say("| %s | %s | %.1f | %.1f | %s |", c.store, c.name, c.idle, c.perRelease, shown(c.took))
	}

	say("\n## %d locks held by one process\n", p.locks)
	say("Requests as the store counts them, over %v. An interval is the library's own, between two", p.watched)
	say("renewals of a lock. redsync is not here: it renews nothing by itself.\n")
	say("| store | library | interval | renewal requests per interval | all requests per second |\n|---|---|---|---|---|")
	for _, n := range r.renewal {
		say("| %s | %s | %s | %.1f | %.1f |", n.store, n.name, shown(n.interval), n.perInterval(), n.requests.all/p.watched.Seconds())
	}
	r.targets(say)
	return b.String()
}

// perInterval counts keep-alive messages on etcd and scripts on Redis.
func (n renewalResult) perInterval() float64 {
	return (n.requests.keepAlives + n.requests.scripts) / n.intervals
}

func (r results) targets(say func(string, ...any)) {
	say("\n## What was aimed at\n")
	say("| target | measured | reached |\n|---|---|---|")
	row := func(target, measured string, ok bool) {
		word := "no"
		if ok {
			word = "yes"
		}
		say("| %s | %s | %s |", target, measured, word)
	}
	for _, s := range r.uncontended {
		if s.name == ours {
			x := timesFastest(r.uncontended, s)
			row("uncontended on "+s.store+" at most 1.25 × the fastest", fmt.Sprintf("%.2f", x), x <= 1.25)
		}
	}
	var polled time.Duration
	for _, s := range r.handoff {
		if s.polls {
			polled = s.at(.5)
		}
	}
	for _, s := range r.handoff {
		if s.name == ours {
			row("hand-off on "+s.store+", median, at most a tenth of one that polls",
				fmt.Sprintf("1/%.0f", float64(polled)/float64(s.at(.5))), s.at(.5) <= polled/10)
		}
	}
	for _, c := range r.crowd {
		if c.name == ours {
			row(fmt.Sprintf("%d waiters on %s, at most 4 + %d requests per release", crowdProcesses*crowdEach, c.store, crowdProcesses),
				fmt.Sprintf("%.1f", c.perRelease), c.perRelease <= 4+crowdProcesses)
		}
	}
	for _, n := range r.renewal {
		if n.name != ours {
			continue
		}
		most := map[string]float64{storeRedis: 10, storeEtcd: 1}[n.store]
		// The length of an interval is random by a tenth, and the table takes its mean.
		row(fmt.Sprintf("1,000 locks on %s, at most %.0f renewal requests per interval, give or take 5 %%", n.store, most),
			fmt.Sprintf("%.2f", n.perInterval()), n.perInterval() <= most*1.05)
	}
}

// timesFastest compares medians with the fastest other library on the store.
func timesFastest(all []spread, s spread) float64 {
	var fastest time.Duration
	for _, other := range all {
		if m := other.at(.5); other.store == s.store && other.name != s.name && (fastest == 0 || m < fastest) {
			fastest = m
		}
	}
	return float64(s.at(.5)) / float64(fastest)
}

// shown is a duration with three digits.
func shown(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// versions names the libraries as they were built in.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "Versions unknown"
	}
	var found []string
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/go-redsync/redsync/v4", "github.com/redis/rueidis", "go.etcd.io/etcd/client/v3", "github.com/redis/go-redis/v9":
			found = append(found, m.Path+" "+m.Version)
		}
	}
	return strings.Join(found, ", ")
}
