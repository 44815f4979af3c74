package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"seckill/deploy/stack"
)

const (
	memoryEvery = 50 * time.Millisecond
	heldFor     = 3 * time.Second // how long the log is stopped while buyers wait
)

// measureMillion lets a backlog grow and a worker come.
func (m *measuring) measureMillion(ctx context.Context) (err error) {
	b, err := m.openBacklog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	before, err := redisMemory(ctx, b.stand)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, m.million); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	waiting, err := redisMemory(ctx, b.stand)
	if err != nil {
		return err
	}
	rate, most, err := b.drain(ctx, m.million, false)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	settled, err := redisMemory(ctx, b.stand)
	if err != nil {
		return err
	}
	each := func(used int64) float64 { return float64(used-before) / float64(m.million) }
	m.row(resultRow{
		"Redis per order until its activity closes", fmt.Sprintf("%.0f B waiting, %.0f B settled", each(waiting), each(settled)),
		count(m.million) + " orders, half of them under a key", "", "at most 450 B", max(each(waiting), each(settled)) <= 450,
	})
	m.row(resultRow{
		fmt.Sprintf("worker at a backlog of %s orders", count(m.million)), fmt.Sprintf("%d MB at most", most>>20),
		fmt.Sprintf("drained at %s orders/s", count(int64(rate))), "", "under 256 MB", most < 256<<20,
	})
	return b.judge(ctx)
}

// measureWaiting stops the log for a moment, so that everybody who asks waits.
func (m *measuring) measureWaiting(ctx context.Context) (err error) {
	s, err := openStand(ctx, m.words, m.options.program, "etcd", "SECKILL_HTTP_TIMEOUT=9s", "SECKILL_QUEUE_LIMIT=20000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	t := m.auditedTarget(s, "waiting")
	if err := s.serving.openSKUs(ctx, "waiting", "Results", t.skus, fullUnits, 1); err != nil {
		return err
	}
	th := newThrong(t.offers(), 1<<30, 0, 1)
	warm := m.load(0, m.each, th)
	warm.requests = 256
	if _, err := m.clean(ctx, t, warm); err != nil { // so that idle is not asleep
		return err
	}
	pid := s.serving.process.Pid
	idle, _, err := residentMemory(pid)
	if err != nil {
		return err
	}
	if err := s.servers.Pause(stack.NATS); err != nil {
		return err
	}
	held := time.AfterFunc(heldFor+time.Duration(m.waiting/4)*time.Millisecond, func() { _ = s.servers.Resume(stack.NATS) })
	defer held.Stop()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	most := make(chan memoryPeak, 1)
	go func() { most <- watchMemory(watching, s, pid) }()
	o := m.load(0, m.each, th)
	o.requests, o.connections = int64(m.waiting), m.waiting
	out, err := sendOnly(ctx, io.Discard, &target{public: t.public, activities: t.activities, skus: t.skus}, o)
	stop()
	peak := <-most
	if err != nil {
		return err
	}
	each := float64(peak.bytes-idle) / float64(m.waiting) / 1024
	m.row(resultRow{
		fmt.Sprintf("memory per request, %s waiting", count(int64(m.waiting))), fmt.Sprintf("%.1f KB", each),
		fmt.Sprintf("above %d MB idle; %s goroutines at most, %s answered", idle>>20, count(int64(peak.goroutines)), count(out.load.Answered)),
		"", "at most 32 KB", each <= 32 && peak.goroutines >= m.waiting,
	})
	audit, err := judgeLoad(ctx, t, out.heard, th)
	if err == nil && !audit.Clean {
		err = exitError{3, fmt.Errorf("the audit is not clean: %s", audit.Violations[0])}
	}
	return err
}

type memoryPeak struct {
	bytes      int64
	goroutines int
}

// watchMemory is the most that a service used until ctx ended.
func watchMemory(ctx context.Context, s *stand, pid int) (most memoryPeak) {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return most
		case <-ticker.C:
		}
		if now, _, err := residentMemory(pid); err == nil {
			most.bytes = max(most.bytes, now)
		}
		if families, err := readMetrics(ctx, "http://"+s.serving.admin); err == nil {
			for _, m := range families["go_goroutines"].GetMetric() {
				most.goroutines = max(most.goroutines, int(m.GetGauge().GetValue()))
			}
		}
	}
}
