package consumer_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// fate is what a lossy proxy does with a piece of traffic.
type fate uint8

const (
	forward         fate = iota
	swallow              // it never arrives, the connection lives
	breakConnection      // it never arrives, the connection breaks
)

// lossyProxy stands before a server and, while it is on, decides about every piece of
// what passes, in each direction. A nil decision forwards everything.
type lossyProxy struct {
	address           string
	requests, answers func(piece []byte) fate
	on                atomic.Bool
	lost              atomic.Int64
}

func newLossyProxy(t *testing.T, upstream string, requests, answers func([]byte) fate) *lossyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	p := &lossyProxy{address: l.Addr().String(), requests: requests, answers: answers}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, upstream)
		}
	}()
	return p
}

func (p *lossyProxy) serve(client net.Conn, upstream string) {
	server, err := net.DialTimeout("tcp", upstream, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	go p.pass(client, server, p.requests)
	p.pass(server, client, p.answers)
}

// pass copies one direction until either side ends, and then ends both.
func (p *lossyProxy) pass(from, to net.Conn, decide func([]byte) fate) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		f := forward
		if decide != nil && p.on.Load() {
			f = decide(buffer[:n])
		}
		if f != forward {
			p.lost.Add(1)
		}
		if f == breakConnection {
			return
		}
		if f == forward {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// everyNth gives every n-th piece the fate.
func everyNth(n int64, f fate) func([]byte) fate {
	var seen atomic.Int64
	return func([]byte) fate {
		if seen.Add(1)%n == 0 {
			return f
		}
		return forward
	}
}
