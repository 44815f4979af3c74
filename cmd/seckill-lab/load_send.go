package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// settleLoadWait bounds the waiting for the settlement after a load.
const settleLoadWait = 2 * time.Minute

// sendOptions is one load on a target.
type sendOptions struct {
	profile     profile
	connections int
	timeout     time.Duration
	buyers      int64
	repeats     float64
	seed        uint64
	header      []string
	throng      *throng // who asks; nil: a new one, from the three above
	requests    int64   // so many, as fast as the connections allow, whatever the profile says; 0: as it says
}

// sent is what came out of one load.
type sent struct {
	load    *loadResult
	heard   *heard
	watch   *watcher
	cpu     cpuTimes
	durable durability
	audit   *judgement
}

// drained is how long after the load everything admitted was settled; ok is false if it was not, or nobody knows.
func (s *sent) drained() (took time.Duration, ok bool) {
	if len(s.watch.samples) == 0 || s.watch.last().settled < s.heard.accepted.Load() {
		return 0, false
	}
	return max(0, s.watch.reached()-s.load.Elapsed), true
}

// send puts a load on a target, waits for its settlement, and audits.
func send(ctx context.Context, words io.Writer, t *target, o sendOptions) (*sent, error) {
	if o.throng == nil {
		o.throng = newThrong(t.offers(), uint32(o.buyers), o.repeats, o.seed)
	}
	s, err := sendOnly(ctx, words, t, o)
	if err != nil {
		return nil, err
	}
	if s.audit, err = judgeLoad(ctx, t, s.heard, o.throng); err != nil {
		return nil, err
	}
	return s, nil
}

// sendOnly leaves the audit to the caller, who has more to send.
func sendOnly(ctx context.Context, words io.Writer, t *target, o sendOptions) (*sent, error) {
	if o.throng == nil {
		o.throng = newThrong(t.offers(), uint32(o.buyers), o.repeats, o.seed)
	}
	pace, requests, err := loadPacer(spikePace{}), o.requests, error(nil)
	if requests == 0 {
		if pace, requests, err = o.profile.schedule(); err != nil {
			return nil, err
		}
	}
	s := &sent{heard: newHeard(), watch: &watcher{admins: t.admins}}
	if s.durable, err = readDurability(ctx, t.postgresURL, t.monitorURL); err != nil {
		return nil, err
	}
	if err := s.watch.begin(ctx); err != nil {
		return nil, err
	}
	before, start := cpuOf(t.pids), time.Now()
	if err := s.run(ctx, words, start, o, loadConfig{
		Target: t.public, Requests: requests, Connections: o.connections, Pace: pace,
		Timeout: o.timeout, Header: o.header, Answer: s.heard.hear,
	}); err != nil {
		return nil, err
	}
	if len(t.admins) > 0 {
		s.watch.until(ctx, start, s.heard.accepted.Load(), settleLoadWait)
	}
	s.cpu = cpuOf(t.pids).since(before)
	s.heard.course.settledBy(s.watch.samples)
	return s, ctx.Err()
}

// run sends while another goroutine looks at the service.
func (s *sent) run(ctx context.Context, words io.Writer, start time.Time, o sendOptions, cfg loadConfig) (err error) {
	sending, over := ctx, context.CancelFunc(func() {})
	bar := cfg.Requests
	if cfg.Requests == unending {
		sending, over = context.WithTimeout(ctx, o.profile.Duration)
		bar = 0
	}
	defer over()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); s.watch.during(watching, start) }()
	stopBar := showProgress(words, &s.heard.counters, bar)
	s.load, err = load(sending, cfg, o.throng.fill)
	stopBar()
	stop()
	<-watched
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("send the load: interrupted after %d of %d requests", s.load.Sent, s.load.Asked)
	case cfg.Requests == unending: // the time was meant to end it
		s.load.Asked, s.load.Unsent, s.load.Stopped = s.load.Sent, 0, false
	}
	return nil
}
