package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// connectAll opens the connections before the clock starts. It is content with some of them, as the others are
// dialled again during the run, but not with none.
func (l *loadLoop) connectAll(ctx context.Context) error {
	for id := range l.conns {
		l.dial(&l.conns[id])
	}
	var lastErr error
	for l.dialling > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("load: connect to %s: %w", l.address, context.Cause(ctx))
		case r := <-l.dialled:
			if r.err != nil {
				lastErr = r.err
			}
			l.settle(r)
		}
	}
	if l.alive == 0 {
		return fmt.Errorf("load: open %d connections to %s: %w; check that the service is running there",
			len(l.conns), l.address, lastErr)
	}
	return nil
}

// dial connects in the background; the result comes through the channel.
func (l *loadLoop) dial(c *loadConn) {
	c.dialling = true
	l.dialling++
	go func() {
		r := dialResult{id: c.id, fd: -1, err: context.Canceled}
		select {
		case l.slots <- struct{}{}:
			r.fd, r.err = dialRaw(l.dialCtx, l.address, l.cfg.Timeout)
			<-l.slots
		case <-l.dialCtx.Done():
		}
		l.dialled <- r
	}()
}

// adopt takes over the connections dialled meanwhile.
func (l *loadLoop) adopt() {
	for l.dialling > 0 {
		select {
		case r := <-l.dialled:
			l.settle(r)
		default:
			return
		}
	}
}

func (l *loadLoop) settle(r dialResult) {
	c := &l.conns[r.id]
	c.dialling = false
	l.dialling--
	if r.err == nil {
		if r.err = l.poll.add(r.fd, c.id); r.err != nil {
			_ = unix.Close(r.fd)
		}
	}
	if r.err != nil {
		l.count.example(r.err)
		l.later(c)
		return
	}
	c.fd, c.have, c.served = r.fd, 0, 0
	c.sent, c.out = 0, c.out[:0]
	l.alive++
	l.free.push(c.id)
}

// drop closes a connection and sees to it that it comes back while there is something to send: at once if it had
// served, else after a pause.
func (l *loadLoop) drop(c *loadConn) {
	if c.fd < 0 {
		return
	}
	_ = l.poll.remove(c.fd, c.id)
	_ = unix.Close(c.fd)
	c.fd, c.have = -1, 0
	l.free.remove(c.id)
	l.alive--
	if l.alive == 0 {
		l.lonely = l.now()
	}
	if l.next >= l.limit {
		return
	}
	l.result.Reconnects++
	if c.served > 0 {
		l.dial(c)
	} else {
		l.later(c)
	}
}

func (l *loadLoop) later(c *loadConn) {
	c.pause = min(max(firstPause, 2*c.pause), longestPause)
	c.retryAt = l.now() + c.pause
}

// tick does what need not be done for each answer.
func (l *loadLoop) tick(ctx context.Context, now time.Duration) {
	l.nextTick = now + tickEvery
	if ctx.Err() != nil && !l.result.Stopped {
		l.result.Stopped = true
		l.limit = l.next
		l.stopBy = now + min(stopGrace, l.cfg.Timeout)
	}
	if l.result.Stopped && now >= l.stopBy {
		l.abandon(errStopped)
		return
	}
	for id := range l.conns {
		c := &l.conns[id]
		switch {
		case c.busy && now-c.sentAt > l.cfg.Timeout:
			l.fail(c, "time-out", fmt.Errorf("%w (%v)", errTimeout, l.cfg.Timeout))
		case c.fd < 0 && !c.dialling && now >= c.retryAt && l.next < l.limit:
			l.dial(c)
		}
	}
	l.giveUp(now)
}

// giveUp lets go of requests that no connection took within the time-out; they count as unsent. With a schedule
// those that are due later keep their chance, as the service may come back.
func (l *loadLoop) giveUp(now time.Duration) {
	if l.alive > 0 || now-l.lonely <= l.cfg.Timeout {
		return
	}
	if l.result.Closed {
		l.limit = l.next
	}
	for l.next < l.limit && now-l.due > l.cfg.Timeout {
		l.advance()
	}
}

// abandon ends the run where it is.
func (l *loadLoop) abandon(err error) {
	l.limit = l.next
	for id := range l.conns {
		if l.conns[id].busy {
			l.fail(&l.conns[id], "stopped", err)
		}
	}
}

// close gives back every descriptor and waits for the dialling goroutines.
func (l *loadLoop) close() {
	l.stopDial()
	for ; l.dialling > 0; l.dialling-- {
		if r := <-l.dialled; r.err == nil {
			_ = unix.Close(r.fd)
		}
	}
	for id := range l.conns {
		if fd := l.conns[id].fd; fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	_ = l.poll.close()
}

// connRing holds the ids of the free connections. First in, first out: all of them are used in turn, as a crowd
// would, and none idles into the server's time-out.
type connRing struct {
	ids        []int
	first, len int
}

func newConnRing(size int) connRing { return connRing{ids: make([]int, size)} }

func (r *connRing) push(id int) {
	r.ids[(r.first+r.len)%len(r.ids)] = id
	r.len++
}

func (r *connRing) pop() int {
	id := r.ids[r.first]
	r.first = (r.first + 1) % len(r.ids)
	r.len--
	return id
}

// remove takes a connection that broke while free out of its place.
func (r *connRing) remove(id int) {
	for n := r.len; n > 0; n-- {
		if other := r.pop(); other != id {
			r.push(other)
		}
	}
}
