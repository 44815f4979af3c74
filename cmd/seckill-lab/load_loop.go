package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	tickEvery    = 50 * time.Millisecond // time-outs, redials, the end of ctx
	stopGrace    = 2 * time.Second       // for the answers under way when the run is stopped
	dialsAtOnce  = 64                    // a listener's queue is finite
	firstPause   = 50 * time.Millisecond // before a connection that never served is dialled again; doubles
	longestPause = time.Second
)

// loadLoop is one run. Everything in it belongs to the goroutine that calls run; the dialling goroutines touch
// only the channel.
type loadLoop struct {
	cfg     loadConfig
	address string
	fixed   []byte // header lines of every request
	source  loadSource
	poll    poller
	count   *loadCounter
	result  *loadResult

	conns []loadConn
	free  connRing
	alive int

	start    time.Time
	next     int64         // the next request to send
	limit    int64         // the first that will not be sent: Requests, or less when stopped
	due      time.Duration // of next
	inFlight int
	starved  time.Duration // the last time that a due request found no free connection
	lonely   time.Duration // since when no connection was alive
	nextTick time.Duration
	stopBy   time.Duration // when stopped: the end of the grace

	dialCtx  context.Context
	stopDial context.CancelFunc
	dialled  chan dialResult // room for all: a dial never blocks
	slots    chan struct{}
	dialling int

	ready  []int
	answer loadAnswer
}

type dialResult struct {
	id, fd int
	err    error
}

func newLoadLoop(cfg loadConfig, address, host string, source loadSource, poll poller) *loadLoop {
	fixed := "Host: " + host + "\r\n"
	for _, line := range cfg.Header {
		fixed += line + "\r\n"
	}
	counter := newLoadCounter(cfg)
	l := &loadLoop{
		cfg: cfg, address: address, fixed: []byte(fixed), source: source, poll: poll,
		count: counter, result: counter.result,
		conns: make([]loadConn, cfg.Connections), free: newConnRing(cfg.Connections),
		start: time.Now(), limit: cfg.Requests, due: cfg.Pace.Due(0), starved: -1,
		dialled: make(chan dialResult, cfg.Connections), slots: make(chan struct{}, dialsAtOnce),
	}
	l.dialCtx, l.stopDial = context.WithCancel(context.Background())
	for id := range l.conns {
		l.conns[id] = loadConn{id: id, fd: -1}
	}
	return l
}

func (l *loadLoop) now() time.Duration { return time.Since(l.start) }

// run sends until every request is accounted for.
func (l *loadLoop) run(ctx context.Context) {
	l.start = time.Now()
	var last time.Duration
	for l.next < l.limit || l.inFlight > 0 {
		l.adopt()
		l.issue()
		var err error
		if l.ready, err = l.poll.wait(l.patience(), l.ready[:0]); err != nil {
			l.abandon(fmt.Errorf("wait for answers: %w", err))
			break
		}
		for _, id := range l.ready {
			l.serve(&l.conns[id])
		}
		last = l.now()
		if last >= l.nextTick {
			l.tick(ctx, last)
		}
	}
	l.count.finish(last)
}

// patience is how long to wait for answers: until the next request is due, if a connection is free for it.
func (l *loadLoop) patience() time.Duration {
	now := l.now()
	wait := l.nextTick - now
	if l.next < l.limit && l.free.len > 0 {
		wait = min(wait, l.due-now)
	}
	if l.dialling > 0 { // their channel does not wake the poller
		wait = min(wait, 2*time.Millisecond)
	}
	return max(wait, 0)
}

// issue sends what is due on the connections that are free.
func (l *loadLoop) issue() {
	for l.next < l.limit {
		now := l.now()
		if l.due > now {
			return
		}
		if l.free.len == 0 {
			l.starved = now
			return
		}
		if intended := l.intended(now); now-intended <= l.cfg.Timeout {
			l.send(&l.conns[l.free.pop()], intended)
		}
		l.advance()
	}
}

// intended is when the next request was meant to leave; without a schedule that is the moment it can.
func (l *loadLoop) intended(now time.Duration) time.Duration {
	if l.result.Closed {
		return now
	}
	return l.due
}

func (l *loadLoop) advance() {
	l.next++
	l.due = l.cfg.Pace.Due(l.next)
}

func (l *loadLoop) send(c *loadConn, intended time.Duration) {
	l.source(l.next, &c.request)
	c.render(l.fixed)
	c.busy, c.n, c.intended, c.have = true, l.next, intended, 0
	l.inFlight++
	c.sentAt = l.now()
	l.count.sent(c.sentAt-intended, intended <= l.starved)
	if len(c.out) > maxRequestBytes {
		l.fail(c, "request too long", errTooBig)
		return
	}
	l.push(c)
	if c.fd >= 0 && c.sent < len(c.out) {
		if err := l.poll.wantWrite(c.fd, c.id, true); err != nil {
			l.fail(c, "connection broken", err)
		}
	}
}

func (l *loadLoop) push(c *loadConn) {
	if err := c.flush(); err != nil {
		l.fail(c, "connection broken", err)
	}
}

// serve does what a connection is ready for.
func (l *loadLoop) serve(c *loadConn) {
	if c.fd < 0 {
		return // closed earlier in this round
	}
	if c.busy && c.sent < len(c.out) {
		if l.push(c); c.fd < 0 {
			return
		}
		if c.sent == len(c.out) {
			_ = l.poll.wantWrite(c.fd, c.id, false) // at worst it reports too often
		}
	}
	n, err := c.read()
	switch {
	case errors.Is(err, errClosed):
		l.fail(c, "connection closed", err)
	case err != nil:
		l.fail(c, "connection broken", err)
	case n == 0:
	case !c.busy:
		l.count.example(errTornApart)
		l.drop(c)
	default:
		l.parse(c)
	}
}

func (l *loadLoop) parse(c *loadConn) {
	answer, taken, err := c.answer()
	switch {
	case err != nil:
		l.fail(c, "bad answer", err)
		return
	case taken == 0:
		return
	}
	l.complete(c, answer)
	if answer.close || taken < c.have || c.sent < len(c.out) {
		l.drop(c)
	} else {
		l.free.push(c.id)
	}
	l.issue()
}

func (l *loadLoop) complete(c *loadConn, answer httpAnswer) {
	done := l.now()
	c.busy = false
	c.served++
	c.pause = 0
	l.inFlight--
	a := &l.answer
	*a = loadAnswer{
		N: c.n, Request: &c.request, Status: answer.status, Body: answer.body,
		Intended: c.intended, Sent: c.sentAt, Done: done,
	}
	a.Kind = l.count.answered(answer.status, answer.body, a.Latency())
	a.OrderID = jsonString(answer.body, `"order_id"`)
	l.cfg.Answer(a)
}

// fail closes a connection; the outcome of a request on it is unknown.
func (l *loadLoop) fail(c *loadConn, reason string, err error) {
	if c.busy {
		c.busy = false
		l.inFlight--
		l.count.unknown(reason, err)
		l.answer = loadAnswer{
			N: c.n, Request: &c.request, Err: err, Intended: c.intended, Sent: c.sentAt, Done: l.now(),
		}
		l.cfg.Answer(&l.answer)
	}
	l.drop(c)
}
