package main

//lint:file-ignore SA1019 the second model of dashboards needs a new Grafana; every one imports the first

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// pipelineBoard is what an operator looks at when the sale is slow: which stage it is,
// who settles, how the leases are.
func pipelineBoard() *dashboard.DashboardBuilder {
	return newBoard("seckill-pipeline", "Seckill: pipeline and locks", "Stages from the gate to the event, the leases, the processes.").
		WithRow(dashboard.NewRowBuilder("Stages")).
		WithPanel(course("Backlog by partition", "Orders reserved and not decided.", "short",
			query{`max by (partition) (seckill_backlog_orders)`, "partition {{partition}}"})).
		WithPanel(course("Orders in a batch", "Buyers in one run of the script, and orders in one settlement, on the average.", "short",
			query{`sum(rate(seckill_admission_batch_size_sum[$__rate_interval])) / sum(rate(seckill_admission_batch_size_count[$__rate_interval]))`, "admission"},
			query{`sum(rate(seckill_settle_batch_size_sum[$__rate_interval])) / sum(rate(seckill_settle_batch_size_count[$__rate_interval]))`, "settlement"})).
		WithPanel(course("Append to the log", "Until a batch is on disk.", "s", quantiles("seckill_append_seconds")...)).
		WithPanel(course("Settlement transaction", "", "s", quantiles("seckill_settle_seconds")...)).
		WithPanel(course("Redelivered and fenced", "Messages that came again; settlements refused for an older term.", "ops",
			query{`sum(rate(seckill_redelivered_total[$__rate_interval]))`, "redelivered"},
			query{`sum(rate(seckill_fenced_total[$__rate_interval]))`, "fenced"})).
		WithPanel(course("Units and events on their way", "Dead orders whose units are not back at the gate; changes whose event is not published.", "short",
			query{`max(seckill_release_due)`, "release due"}, query{`max(seckill_events_backlog)`, "events"})).
		WithPanel(course("Age of the oldest event", "That waits to be published.", "s", query{`max(seckill_events_oldest_seconds)`, "age"})).
		WithPanel(course("Waiting for the ledger's pool", "Seconds waited in each second, and how often.", "short",
			query{`sum by (instance) (rate(seckill_ledger_pool_wait_seconds_total[$__rate_interval]))`, "{{instance}} seconds"},
			query{`sum by (instance) (rate(seckill_ledger_pool_waits_total[$__rate_interval]))`, "{{instance}} waits"})).
		WithRow(dashboard.NewRowBuilder("Leases")).
		WithPanel(course("Held, and waited for", "", "short",
			query{`sum by (instance) (seckill_lock_held)`, "{{instance}} held"},
			query{`sum by (instance) (seckill_lock_waiters)`, "{{instance}} waiting"})).
		WithPanel(course("Acquisitions and failures", "", "ops",
			query{`sum by (backend) (rate(seckill_lock_acquire_total[$__rate_interval]))`, "{{backend}}"},
			query{`sum by (backend, reason) (rate(seckill_lock_acquire_fail_total[$__rate_interval]))`, "{{backend}} {{reason}}"})).
		WithPanel(course("Time to the lease", "", "s", quantiles("seckill_lock_wait_seconds")...)).
		WithPanel(course("Holds that ended", "By purpose, on the average of the whole time.", "s",
			query{`sum by (purpose) (seckill_lock_hold_seconds_sum) / (sum by (purpose) (seckill_lock_hold_seconds_count) > 0)`, "{{purpose}}"})).
		WithPanel(course("Renewals", "Asked for, and not confirmed.", "ops",
			query{`sum by (backend) (rate(seckill_lock_watchdog_renew_total[$__rate_interval]))`, "{{backend}}"},
			query{`sum by (backend) (rate(seckill_lock_watchdog_renew_fail_total[$__rate_interval]))`, "{{backend}} not confirmed"})).
		WithPanel(course("Validity left at a renewal", "Share of the TTL, lower tenth; low values warn of a loss.", "percentunit",
			query{`histogram_quantile(0.1, sum by (le) (rate(seckill_lock_remaining_ratio_bucket[$__rate_interval])))`, "p10"})).
		WithPanel(course("Duration of a renewal", "", "s", quantiles("seckill_lock_renew_seconds")...)).
		WithPanel(course("Leases lost", "While held, by reason.", "ops",
			query{`sum by (backend, reason) (rate(seckill_lock_lost_total[$__rate_interval]))`, "{{backend}} {{reason}}"})).
		WithPanel(course("Sessions, undone attempts, releases", "", "ops",
			query{`sum by (backend) (rate(seckill_lock_session_recreated_total[$__rate_interval]))`, "{{backend}} sessions made anew"},
			query{`sum by (backend) (rate(seckill_lock_undo_total[$__rate_interval]))`, "{{backend}} undone"},
			query{`sum by (backend) (rate(seckill_lock_release_fail_total[$__rate_interval]))`, "{{backend}} releases not confirmed"})).
		WithPanel(course("What woke a waiter", "", "ops",
			query{`sum by (source) (rate(seckill_lock_wakeup_total[$__rate_interval]))`, "{{source}}"})).
		WithRow(dashboard.NewRowBuilder("Processes")).
		WithPanel(course("Processor", "", "short", query{`rate(process_cpu_seconds_total[$__rate_interval])`, "{{instance}}"})).
		WithPanel(course("Memory and goroutines", "", "short",
			query{`process_resident_memory_bytes`, "{{instance}} bytes"}, query{`go_goroutines`, "{{instance}} goroutines"})).
		WithPanel(course("Log lines suppressed", "Because many like them had been written.", "ops",
			query{`sum by (instance) (rate(seckill_log_suppressed_total[$__rate_interval]))`, "{{instance}}"})).
		WithPanel(course("Builds", "", "short", query{`count by (version, commit) (seckill_build_info)`, "{{version}} {{commit}}"}))
}
