package main

//lint:file-ignore SA1019 the second model of dashboards needs a new Grafana; every one imports the first

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// saleBoard is what an operator looks at while a sale runs: does the stock add up, do
// buyers get answers, is anything wrong.
func saleBoard() *dashboard.DashboardBuilder {
	return newBoard("seckill-sale", "Seckill: the sale", "Stock, buyers and laws of the sales that run.").
		WithVariable(dashboard.NewQueryVariableBuilder("activity").Label("Activity").
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(seckill_stock, activity)")}).
			Datasource(source()).Multi(true).IncludeAll(true).AllValue(".*").
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged)).
		WithRow(dashboard.NewRowBuilder("Now")).
		WithPanel(figure("Units left", "As the ledger has them.", "short", 0,
			query{`sum(max by (activity, sku) (seckill_stock{source="ledger", activity=~"$activity"}))`, "units"})).
		WithPanel(figure("Orders undecided", "Accepted and waiting for the ledger, held ones included.", "short", 0,
			query{`max(seckill_undecided_orders)`, "orders"})).
		WithPanel(figure("Oldest unsettled", "Age of the oldest order of the log that is not settled.", "s", 30,
			query{`max(seckill_oldest_unsettled_seconds)`, "age"})).
		WithPanel(figure("Dead letters", "Orders that wait for an operator.", "short", 1,
			query{`max(seckill_dead_letters)`, "letters"})).
		WithPanel(figure("Broken laws", "Found by the light audit; must be 0.", "short", 1,
			query{`max(seckill_law_violations)`, "laws"})).
		WithPanel(figure("Gates not ready", "Untrusted or being rebuilt.", "short", 1,
			query{`sum(max by (activity, state) (seckill_gate_state{state=~"untrusted|rebuilding", activity=~"$activity"}))`, "gates"})).
		WithRow(dashboard.NewRowBuilder("Stock")).
		WithPanel(course("Units left at the gate and in the ledger", "The gate is ahead while orders wait to be settled; at rest both are the same.", "short",
			query{`max by (activity, sku, source) (seckill_stock{activity=~"$activity"})`, "{{activity}} {{sku}} {{source}}"})).
		WithPanel(course("State of the gates", "1 for the state that a gate is in.", "short",
			query{`max by (activity, state) (seckill_gate_state{activity=~"$activity"}) == 1`, "{{activity}} {{state}}"})).
		WithRow(dashboard.NewRowBuilder("Buyers")).
		WithPanel(course("Answers a second", "By outcome: accepted, repeated, or the code of the problem.", "reqps",
			query{`sum by (outcome) (rate(seckill_admission_total[$__rate_interval])) > 0`, "{{outcome}}"})).
		WithPanel(course("Turned away before the gate", "By the limit that refused.", "reqps",
			query{`sum by (reason) (rate(seckill_refused_total[$__rate_interval]))`, "{{reason}}"})).
		WithPanel(course("Time to the answer", "From a buyer's request to its answer.", "s", quantiles("seckill_admission_seconds")...)).
		WithPanel(course("Time until it is settled", "From the reservation of an order to its settlement.", "s", quantiles("seckill_order_seconds")...)).
		WithPanel(course("Settled a second", "By the status that the ledger gave.", "ops",
			query{`sum by (outcome) (rate(seckill_settle_total[$__rate_interval]))`, "{{outcome}}"})).
		WithPanel(course("Buyers who wait", "For a change of their order, streams included.", "short",
			query{`sum(seckill_waiting_buyers)`, "waiting"}, query{`sum(seckill_order_streams)`, "streams"}))
}
