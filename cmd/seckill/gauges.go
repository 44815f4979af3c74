package main

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/admission"
)

// gaugeAge is when what was sampled is too old to be shown: a series that stands
// still would look like a system that does.
const gaugeAge = 15 * time.Second

// The states of a gate as an operator cares for them.
var gateStates = []string{"open", "paused", "closed", "rebuilding", "untrusted"}

// sample is one look at the whole installation.
type sample struct {
	at         time.Time
	backlog    []int64 // by partition
	oldest     time.Duration
	undecided  int64
	due        int64
	dead       uint64
	events     int64         // that wait in the outbox
	eventsAge  time.Duration // of the oldest of them
	violations int
	activities []sampledActivity
}

type sampledActivity struct {
	id, state string
	skus      []sampledSKU
}

type sampledSKU struct {
	id           string
	ledger, gate int64
	hasGate      bool
}

// gauges shows the newest sample as metrics. Series are made from the sample at each
// scrape, so those of a closed activity end with it. They speak of the installation:
// every worker shows the same.
type gauges struct {
	newest atomic.Pointer[sample]

	backlog, oldest, undecided, due, dead, events, eventsAge, stock, gate, violations *prometheus.Desc
}

func newGauges() *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("seckill_"+name, help+" Of the installation; every worker shows the same.", labels, nil)
	}
	return &gauges{
		backlog:    desc("backlog_orders", "Orders reserved at the gates of a partition's activities and not decided, held ones aside.", "partition"),
		oldest:     desc("oldest_unsettled_seconds", "Age of the oldest log message that is not settled; 0 without one."),
		undecided:  desc("undecided_orders", "Orders that are not decided, held ones included."),
		due:        desc("release_due", "Dead orders whose units have yet to be given back at a gate."),
		dead:       desc("dead_letters", "Messages in the dead-letter stream."),
		events:     desc("events_backlog", "Changes of status that wait in the ledger for their event to be published, counted up to 100,000."),
		eventsAge:  desc("events_oldest_seconds", "Age of the oldest change of status whose event is not published; 0 without one."),
		stock:      desc("stock", "Units that are not sold, as gate and ledger have them; until a sale is closed and settled.", "activity", "sku", "source"),
		gate:       desc("gate_state", "1 for the state that a gate is in, 0 for the others; until a sale is closed and settled.", "activity", "state"),
		violations: desc("law_violations", "Broken laws found by the light audit of the sales that are open or paused, every 15 s: oversold, negative, total = stock + live, and at rest stranded; must be 0. seckill audit checks all laws."),
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.backlog, g.oldest, g.undecided, g.due, g.dead, g.events, g.eventsAge, g.stock, g.gate, g.violations} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	s := g.newest.Load()
	if s == nil || time.Since(s.at) > gaugeAge {
		return
	}
	show := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for partition, n := range s.backlog {
		show(g.backlog, float64(n), strconv.Itoa(partition))
	}
	show(g.oldest, s.oldest.Seconds())
	show(g.undecided, float64(s.undecided))
	show(g.due, float64(s.due))
	show(g.dead, float64(s.dead))
	show(g.events, float64(s.events))
	show(g.eventsAge, s.eventsAge.Seconds())
	show(g.violations, float64(s.violations))
	for _, a := range s.activities {
		for _, state := range gateStates {
			is := 0.0
			if state == a.state {
				is = 1
			}
			show(g.gate, is, a.id, state)
		}
		for _, sku := range a.skus {
			show(g.stock, float64(sku.ledger), a.id, sku.id, "ledger")
			if sku.hasGate {
				show(g.stock, float64(sku.gate), a.id, sku.id, "gate")
			}
		}
	}
}

// gateState is the word for a gate beside what the ledger says. A gate that is closed
// by a newer rebuild than the ledger's epoch is being made.
func gateState(a admission.Activity, m admission.GateMark) string {
	switch {
	case m.State == "closed" && m.Epoch >= a.Epoch:
		return "rebuilding"
	case !m.Ready(a.Epoch) || a.Suspect != "":
		return "untrusted"
	case m.Sale == admission.Paused:
		return "paused"
	case m.Sale == admission.Closed:
		return "closed"
	}
	return "open"
}
