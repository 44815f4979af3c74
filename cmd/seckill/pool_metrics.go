package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// registerPool shows whether the connections to the ledger are too few.
func registerPool(r prometheus.Registerer, pool *pgxpool.Pool) {
	r.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "seckill_ledger_pool_waits_total", Help: "Times that a connection to the ledger was wanted and none was free.",
		}, func() float64 { return float64(pool.Stat().EmptyAcquireCount()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "seckill_ledger_pool_wait_seconds_total", Help: "Time spent waiting for a connection to the ledger.",
		}, func() float64 { return pool.Stat().EmptyAcquireWaitTime().Seconds() }),
	)
}
