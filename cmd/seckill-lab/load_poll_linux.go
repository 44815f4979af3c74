package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

func newPoller(size int) (poller, error) { return newEpoll(size) }

// epoll costs the same however many connections are idle. Its own time-out counts in milliseconds, too coarse
// for a pace of thousands a second, so that real waits go through ppoll on the epoll descriptor; under load
// something is ready at once and one system call is all.
type epoll struct {
	fd     int
	events []unix.EpollEvent
}

func newEpoll(size int) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &epoll{fd: fd, events: make([]unix.EpollEvent, min(size, 256))}, nil
}

func (p *epoll) add(fd, id int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)})
}

func (p *epoll) wantWrite(fd, id int, on bool) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)}
	if on {
		event.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &event)
}

func (p *epoll) remove(fd, _ int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (p *epoll) wait(timeout time.Duration, ready []int) ([]int, error) {
	n, err := unix.EpollWait(p.fd, p.events, 0)
	if n == 0 && err == nil && timeout > 0 {
		ts := unix.NsecToTimespec(timeout.Nanoseconds())
		if _, err = unix.Ppoll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, &ts, nil); err == nil {
			n, err = unix.EpollWait(p.fd, p.events, 0)
		}
	}
	if errors.Is(err, unix.EINTR) {
		return ready, nil
	}
	for _, event := range p.events[:max(n, 0)] {
		ready = append(ready, int(event.Fd))
	}
	return ready, err
}

func (p *epoll) close() error { return unix.Close(p.fd) }
