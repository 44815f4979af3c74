package locktest

import (
	"sync"
	"time"
)

const (
	stalled   = 100 * time.Millisecond // an idle store that takes longer for a read did not run, or this process did not
	meterStep = 25 * time.Millisecond
)

// meter asks the store for a little all the time, to know when it, or this process, or
// the whole machine, stood still.
type meter struct {
	mu     sync.Mutex
	stalls []stall
	stop   chan struct{}
	done   chan struct{}
}

type stall struct {
	end  time.Time
	time time.Duration
}

func startMeter(t T, h Harness) *meter {
	e := newEnv(t, h, Case{})
	m := &meter{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for {
			began := time.Now()
			_, _ = e.raw.Left("nobody")
			pause(m.stop, meterStep)
			if d := time.Since(began) - meterStep; d > stalled {
				m.mu.Lock()
				m.stalls = append(m.stalls, stall{time.Now(), d})
				m.mu.Unlock()
			}
			select {
			case <-m.stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() {
		close(m.stop)
		<-m.done
	})
	return m
}

// worst is the longest standstill since a time.
func (m *meter) worst(since time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	worst := time.Duration(0)
	for _, s := range m.stalls {
		if s.end.After(since) {
			worst = max(worst, s.time)
		}
	}
	return worst
}
