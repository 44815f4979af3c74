package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const firstReadBytes = 4 << 10

// loadConn is one connection to the service and the one request on it. Its place among the connections of the
// run stays when it breaks and is dialled again.
type loadConn struct {
	id int
	fd int // -1 while down

	in   []byte // answer bytes, have of them read
	have int
	out  []byte // the request, written of it sent
	sent int

	busy     bool
	n        int64
	request  loadRequest
	intended time.Duration
	sentAt   time.Duration

	dialling bool
	served   int // answers since the last dial; a connection that never served is dialled with a growing pause
	pause    time.Duration
	retryAt  time.Duration
}

// Why the outcome of a request is unknown.
var (
	errClosed    = errors.New("the server closed the connection before the answer")
	errTimeout   = errors.New("no answer within the time-out")
	errTooBig    = fmt.Errorf("the request is longer than %d bytes", maxRequestBytes)
	errTornApart = errors.New("the server sent bytes that no request had asked for")
)

// render writes the request into out. fixed are the header lines that all requests share, each with its CR LF.
func (c *loadConn) render(fixed []byte) {
	r := &c.request
	method := r.Method
	if method == "" {
		method = "POST"
	}
	out := append(c.out[:0], method...)
	out = append(out, ' ')
	out = append(out, r.Path...)
	out = append(out, " HTTP/1.1\r\n"...)
	out = append(out, fixed...)
	if len(r.Buyer) > 0 {
		out = append(append(append(out, "X-User-ID: "...), r.Buyer...), "\r\n"...)
	}
	if len(r.Key) > 0 {
		out = append(append(append(out, "Idempotency-Key: "...), r.Key...), "\r\n"...)
	}
	if len(r.Body) > 0 {
		out = append(out, "Content-Type: application/json\r\nContent-Length: "...)
		out = append(strconv.AppendInt(out, int64(len(r.Body)), 10), "\r\n"...)
	} else if method == "POST" || method == "PUT" {
		out = append(out, "Content-Length: 0\r\n"...)
	}
	c.out, c.sent = append(append(out, "\r\n"...), r.Body...), 0
}

// flush writes what the socket takes. A full socket is no error; c.sent tells how far it came.
func (c *loadConn) flush() error {
	for c.sent < len(c.out) {
		n, err := unix.Write(c.fd, c.out[c.sent:])
		switch {
		case err == nil:
			c.sent += n
		case errors.Is(err, unix.EAGAIN):
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("write the request: %w", err)
		}
	}
	return nil
}

// read takes what one read gives. 0 bytes without an error: nothing there after all.
func (c *loadConn) read() (int, error) {
	if c.have == len(c.in) {
		c.in = append(c.in, make([]byte, max(firstReadBytes, len(c.in)))...)
	}
	for {
		n, err := unix.Read(c.fd, c.in[c.have:])
		switch {
		case err == nil && n > 0:
			c.have += n
			return n, nil
		case err == nil:
			return 0, errClosed
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case !errors.Is(err, unix.EINTR):
			return 0, fmt.Errorf("read the answer: %w", err)
		}
	}
}

// answer parses what was read; taken is 0 while it is incomplete.
func (c *loadConn) answer() (answer httpAnswer, taken int, err error) {
	answer, taken, err = parseAnswer(c.in[:c.have])
	if taken == 0 && err == nil && c.have > maxHeadBytes+2*maxBodyBytes { // tiny chunks, all frame and no data
		err = errBodyLimit
	}
	return answer, taken, err
}

// dialRaw connects and returns the bare descriptor, outside of the runtime's own poller. Address resolution and
// the time-out are the net package's.
func dialRaw(ctx context.Context, address string, timeout time.Duration) (int, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return -1, err
	}
	defer conn.Close() // the duplicate keeps the connection open
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(original uintptr) {
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return -1, err
	}
	return fd, dupErr
}
