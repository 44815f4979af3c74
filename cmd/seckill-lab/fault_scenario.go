package main

import (
	"slices"
	"time"

	"seckill/deploy/stack"
)

// scenario is one sale with one fault in it.
type scenario struct {
	name    string
	fault   func() fault // anew for each run: faults remember what they saw
	workers int
	// only is the lock backend without which the fault hits nothing; "": any.
	only string
	// soldOut: the fault strikes when every unit is taken and most are undecided, in place of the middle of the sale.
	soldOut bool
	// backlog: settlement is held for so long after healing, so that a rebuild finds a log full of undecided orders.
	backlog time.Duration
	// short scenarios run with the tests of every change.
	short bool
	// rejectionAllowed: Redis goes back in time without a sign, which is the one case in which an order answered
	// with 202 may be rejected.
	rejectionAllowed bool
	// eventsLost: NATS goes back in time, and with it the stream of what had been published.
	eventsLost bool
}

// scenarios are all of them: servers and processes x what happens to them.
var scenarios = slices.Concat(killScenarios, pauseScenarios, networkScenarios, dataScenarios, clockScenarios)

const (
	api     = "api"
	worker  = "worker-1"
	instant = 100 * time.Millisecond
	// longBacklog is longer than a rebuild takes to begin and to wait out the publish deadline.
	longBacklog = 7 * time.Second
	// publishDeadline is the service's: no 202 comes later than this after the gate was asked.
	publishDeadline = 2 * time.Second
)

func kill(name string, short bool, targets ...string) scenario {
	return scenario{name: name, workers: 2, short: short, fault: func() fault { return killed(instant, targets...) }}
}

var killScenarios = []scenario{
	kill("kill-api", true, api),
	kill("kill-worker", true, worker),
	kill("kill-redis", true, stack.Redis),
	kill("kill-nats", true, stack.NATS),
	kill("kill-etcd", true, stack.Etcd),
	kill("kill-postgres", true, stack.Postgres),
	kill("kill-workers", false, worker, "worker-2"),
	kill("kill-api+worker", false, api, worker),
	kill("kill-api+redis", false, api, stack.Redis),
	kill("kill-api+nats", false, api, stack.NATS),
	kill("kill-worker+redis", false, worker, stack.Redis),
	kill("kill-worker+postgres", false, worker, stack.Postgres),
	kill("kill-worker+etcd", false, worker, stack.Etcd),
	kill("kill-redis+nats", false, stack.Redis, stack.NATS),
	kill("kill-redis+postgres", false, stack.Redis, stack.Postgres),
	kill("kill-redis+etcd", false, stack.Redis, stack.Etcd),
	kill("kill-nats+postgres", false, stack.NATS, stack.Postgres),
	kill("kill-everything", false, api, worker, "worker-2", stack.Redis, stack.NATS, stack.Etcd, stack.Postgres),
}

func pause(name string, short bool, targets ...string) scenario {
	return scenario{name: name, workers: 2, short: short, fault: func() fault { return paused(longPause, targets...) }}
}

var pauseScenarios = []scenario{
	pause("stop-api", false, api),
	pause("stop-worker", true, worker),
	pause("stop-workers", false, worker, "worker-2"),
	pause("stop-redis", false, stack.Redis),
	pause("stop-nats", false, stack.NATS),
	pause("stop-etcd", false, stack.Etcd),
	pause("stop-postgres", false, stack.Postgres),
	pause("stop-worker+etcd", false, worker, stack.Etcd),
	{name: "stop-worker+kill-redis", workers: 2, fault: func() fault {
		return together("SIGSTOP of a worker for "+longPause.String()+" while Redis is killed",
			paused(longPause, worker), killed(instant, stack.Redis))
	}},
}

func link(name string, make func() fault) scenario {
	return scenario{name: name, workers: 2, fault: make}
}

// On the links, a fault lasts longer than twice the lease's TTL as well.
var networkScenarios = func() (list []scenario) {
	for _, server := range stack.Names {
		first := len(list)
		list = append(list,
			link("cut-"+server, func() fault { return swallowed(server, "cut", longPause, upstream, downstream) }),
			link("late-"+server, func() fault { return withheld(server, longPause, upstream, downstream) }),
			link("half-open-answers-"+server, func() fault {
				return swallowed(server, "half-open, answers are lost:", longPause, downstream)
			}),
			link("half-open-requests-"+server, func() fault {
				return swallowed(server, "half-open, requests are lost:", longPause, upstream)
			}),
			link("delay-"+server, func() fault { return delayed(server, 150*time.Millisecond, longPause) }),
			link("slow-"+server, func() fault { return slowed(server, 64, longPause) }))
		for i := range list[first:] {
			if server == stack.Etcd {
				list[first+i].only = "etcd" // nothing else goes over this link
			}
		}
	}
	return append(list,
		link("cut-api", func() fault { return swallowed("api", "cut", longPause, upstream, downstream) }),
		link("cut-workers", func() fault { return swallowed("worker", "cut", longPause, upstream, downstream) }),
		link("late-workers", func() fault { return withheld("worker", longPause, upstream, downstream) }),
		link("late-worker-redis", func() fault { return withheld("worker/redis", longPause, upstream, downstream) }),
		link("cut-nats+kill-redis", func() fault {
			return together("NATS cut for "+longPause.String()+" while Redis is killed",
				swallowed(stack.NATS, "cut", longPause, upstream, downstream), killed(instant, stack.Redis))
		}))
}()

var dataScenarios = []scenario{
	{name: "script-flush", workers: 2, fault: scriptsFlushed},
	{name: "flushall", workers: 2, short: true, fault: flushed},
	{name: "redis-older-copy", workers: 2, fault: func() fault { return olderCopy(stack.Redis) }},
	{name: "postgres-older-copy", workers: 2, fault: func() fault { return olderCopy(stack.Postgres) }},
	{name: "nats-older-copy", workers: 2, eventsLost: true, fault: func() fault { return olderCopy(stack.NATS) }},
	{name: "etcd-older-copy", workers: 2, only: "etcd", fault: func() fault { return olderCopy(stack.Etcd) }},
	{name: "redis-rolled-back-unnoticed", workers: 2, fault: rolledBack, rejectionAllowed: true},
	{name: "consumer-deleted", workers: 1, fault: consumerDeleted},
	{name: "stream-deleted", workers: 2, fault: streamDeleted},
	{name: "nats-disk-full", workers: 2, fault: diskFull},
	{name: "nats-stream-full", workers: 2, fault: streamFull},
	{name: "sold-out+kill-api", workers: 2, soldOut: true, fault: func() fault { return killed(instant, api) }},
	{name: "sold-out+kill-worker", workers: 2, soldOut: true, fault: func() fault { return killed(instant, worker) }},
	{name: "sold-out+kill-redis", workers: 2, soldOut: true, fault: func() fault { return killed(instant, stack.Redis) }},
	{name: "sold-out+flushall", workers: 2, soldOut: true, fault: flushed},
	{name: "backlog+kill-redis", workers: 2, backlog: longBacklog, fault: func() fault { return killed(instant, stack.Redis) }},
	{name: "backlog+flushall", workers: 2, backlog: longBacklog, fault: flushed},
	// Whatever was answered without the log's word is then nowhere any more.
	{name: "cut-nats-then-flushall+kill-api", workers: 2, fault: func() fault {
		return afterwards("FLUSHALL and a kill of the API when NATS has been cut for longer than an append may take",
			swallowed(stack.NATS, "cut", instant, upstream, downstream), publishDeadline+300*time.Millisecond,
			together("", flushed(), killed(instant, api)))
	}},
	{name: "flushall+kill-worker", workers: 2, fault: func() fault {
		return together("FLUSHALL while a worker is killed", flushed(), killed(instant, worker))
	}},
	{name: "flushall+kill-nats", workers: 2, fault: func() fault {
		return together("FLUSHALL while NATS is killed", flushed(), killed(instant, stack.NATS))
	}},
}

func scenarioNamed(name string) (scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenario{}, false
	}
	return scenarios[i], true
}
