package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

const (
	// liveEvery is the shortest time between two samples. A sample that takes long is
	// followed by a longer pause: looking takes a tenth of the time, if it can.
	liveEvery = time.Second
	liveShare = 10
	// mostPause bounds that pause: a store that hangs must be seen to.
	mostPause = 4 * time.Second
	// mostListeners bounds the open streams of a process.
	mostListeners = 64
	// liveAge is how old a sample may be that is sent to who has just come.
	liveAge = 5 * time.Second
)

// live is the present state of the installation as operators watch it: one sampler in
// the process, which looks only while somebody listens, and any number of listeners up
// to a bound. A listener that is slow misses samples; nothing is queued for it. Safe
// for concurrent use.
type live struct {
	look   func(context.Context) liveSample
	jobs   *jobs
	logger *slog.Logger
	ended  chan struct{} // closed when nothing is sampled any more

	mu        sync.Mutex
	listeners map[*listener]bool
	newest    encodedSample
	wake      chan struct{} // somebody listens
}

// listener is one open stream. It is woken when there is something new, and looks
// itself what that is.
type listener struct {
	news chan struct{}
	seq  int64 // of the newest sample that it has
	jobs int64 // version of the jobs that it has
}

type encodedSample struct {
	seq  int64
	at   time.Time
	data []byte
}

func newLive(look func(context.Context) liveSample, j *jobs, logger *slog.Logger) *live {
	l := &live{
		look: look, jobs: j, logger: logger, ended: make(chan struct{}),
		listeners: map[*listener]bool{}, wake: make(chan struct{}, 1),
	}
	j.changed = l.tell
	return l
}

// join begins to listen; nil if there are too many.
func (l *live) join() *listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= mostListeners {
		return nil
	}
	one := &listener{news: make(chan struct{}, 1)}
	one.news <- struct{}{} // there is something to begin with
	l.listeners[one] = true
	nudge(l.wake)
	return one
}

func (l *live) leave(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.listeners, one)
}

// nudge wakes who waits on a channel of one, or will.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell wakes all listeners.
func (l *live) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.listeners {
		nudge(one.news)
	}
}

func (l *live) heard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.listeners) > 0
}

// run samples while somebody listens, until ctx ends; all streams end then.
func (l *live) run(ctx context.Context) {
	defer close(l.ended)
	for ctx.Err() == nil {
		if !l.heard() {
			select {
			case <-ctx.Done():
			case <-l.wake:
			}
			continue
		}
		pause := time.NewTimer(l.sample(ctx))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// sample looks once, wakes the listeners and returns how long to wait.
func (l *live) sample(ctx context.Context) time.Duration {
	begun := time.Now()
	s := l.look(ctx)
	took := time.Since(begun)
	pause := min(max(liveEvery-took, took*(liveShare-1)), mostPause)
	s.Seq, s.TookMS, s.EveryMS = l.newest.seq+1, milliseconds(took), milliseconds(took+pause)
	data, err := json.Marshal(s)
	if err != nil { // a mistake in this build
		l.logger.Error("the state for the console cannot be encoded", "error", err)
		return pause
	}
	l.mu.Lock()
	l.newest = encodedSample{seq: s.Seq, at: time.Now(), data: data}
	l.mu.Unlock()
	l.tell()
	return pause
}

// next is what a listener does not have yet.
func (l *live) next(one *listener) (sample encodedSample, jobs []jobView) {
	l.mu.Lock()
	if l.newest.seq > one.seq && (one.seq > 0 || time.Since(l.newest.at) < liveAge) {
		sample, one.seq = l.newest, l.newest.seq
	}
	l.mu.Unlock()
	jobs, one.jobs = l.jobs.list(one.jobs)
	return sample, jobs
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
