//go:build unix

package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits until sockets can be read, or written if that was asked for. Readiness is level-triggered: what
// was not read is reported again. Used by one goroutine.
type poller interface {
	add(fd, id int) error                // id is what wait reports, 0 to size-1
	wantWrite(fd, id int, on bool) error // report when writable, too
	remove(fd, id int) error
	wait(timeout time.Duration, ready []int) ([]int, error) // appends to ready; an interrupted wait is no error
	close() error
}

// pollAll is poll(2): a few microseconds dearer than epoll for each wait, and present on every Unix. Waits are
// rounded up to a millisecond.
type pollAll struct{ fds []unix.PollFd }

func newPollAll(size int) *pollAll {
	p := &pollAll{fds: make([]unix.PollFd, size)}
	for i := range p.fds {
		p.fds[i].Fd = -1 // ignored by poll
	}
	return p
}

func (p *pollAll) add(fd, id int) error {
	p.fds[id] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	return nil
}

func (p *pollAll) wantWrite(_, id int, on bool) error {
	p.fds[id].Events = unix.POLLIN
	if on {
		p.fds[id].Events |= unix.POLLOUT
	}
	return nil
}

func (p *pollAll) remove(_, id int) error {
	p.fds[id] = unix.PollFd{Fd: -1}
	return nil
}

func (p *pollAll) wait(timeout time.Duration, ready []int) ([]int, error) {
	ms := (max(timeout, 0) + time.Millisecond - 1) / time.Millisecond
	n, err := unix.Poll(p.fds, int(ms))
	if err != nil {
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return ready, err
	}
	for id := 0; id < len(p.fds) && n > 0; id++ {
		if p.fds[id].Revents != 0 {
			ready = append(ready, id)
			n--
		}
	}
	return ready, nil
}

func (p *pollAll) close() error { return nil }
