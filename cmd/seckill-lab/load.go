package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// The load engine. It is the only thing in the lab that sends a crowd, so that every figure of the lab is
// measured in the same way.
//
// Load is open: each request has an intended send time that comes from a pacer and does not depend on how fast
// the answers come back, and latency is counted from that time. A server that stalls therefore shows the wait of
// everybody who would have asked meanwhile, not only of those who happened to be connected.
//
// One goroutine owns everything: it waits for readiness on all connections, writes prepared requests on raw
// sockets and parses the answers in place. A goroutine a connection would park and wake for every answer, and the
// sender shares its cores with the servers it measures: what it saves, they get.
//
// No request is lost silently. At the end of a run
//
//	asked = sent + unsent,   sent = answered + unknown
//
// where unknown is a request whose answer never came (connection broken, time-out, an answer that is not HTTP).
// It is not a failure: the server may well have done what it was asked. The engine never sends a request twice.
//
// Memory is bounded by the connections (a few KiB each, at most the size limits below) and by the number of kinds
// of answers; it does not grow with the number of requests.

// Bounds of what is sent and what is accepted as an answer.
const (
	maxRequestBytes = 64 << 10
	maxHeadBytes    = 16 << 10
	maxBodyBytes    = 256 << 10
	maxKinds        = 64 // further kinds of answers are counted together
	maxConnections  = 60_000
)

// loadRequest is one request, filled by the source of the load. The slices are reused: append to them from [:0].
type loadRequest struct {
	Method string // "" is POST
	Path   []byte // absolute, with query if any
	Buyer  []byte // X-User-ID; none if empty
	Key    []byte // Idempotency-Key; none if empty
	Body   []byte // JSON; none if empty
}

// loadSource fills in request n. It is called once for each n, in rising order, always from one goroutine.
type loadSource func(n int64, r *loadRequest)

// loadAnswer is what became of one request that was sent. It and its slices are valid during the call only.
// Times are counted from the start of the run.
type loadAnswer struct {
	N        int64
	Request  *loadRequest
	Status   int    // 0: the outcome is unknown, Err says why
	Kind     string // "202", "409 sold-out", …; "" if the outcome is unknown
	OrderID  []byte // of a body with an order_id, else empty
	Body     []byte
	Err      error
	Intended time.Duration
	Sent     time.Duration
	Done     time.Duration
}

// Latency is what the buyer waited: from the intended send time to the last byte of the answer.
func (a loadAnswer) Latency() time.Duration { return a.Done - a.Intended }

// loadConfig describes a run. Zero values mean the default.
type loadConfig struct {
	Target      string        // base URL of the service, "http://host:port"; required
	Requests    int64         // how many to ask; required
	Connections int           // kept open at the same time; default 256
	Pace        loadPacer     // intended send times; default: no schedule, as fast as the connections allow
	Timeout     time.Duration // longest wait for an answer, for a free connection, for a connect; default 10s
	Header      []string      // further header lines for every request, "Name: value"

	// Answer hears of every request that was sent, exactly once, from the one goroutine of the engine: it must
	// not block. Optional.
	Answer func(*loadAnswer)
}

func (c *loadConfig) withDefaults() (loadConfig, error) {
	d := *c
	if d.Connections == 0 {
		d.Connections = 256
	}
	if d.Timeout == 0 {
		d.Timeout = 10 * time.Second
	}
	if d.Pace == nil {
		d.Pace = spikePace{}
	}
	if d.Answer == nil {
		d.Answer = func(*loadAnswer) {}
	}
	switch {
	case d.Requests < 1:
		return d, fmt.Errorf("load: requests is %d: ask for at least one", d.Requests)
	case d.Connections < 1 || d.Connections > maxConnections:
		return d, fmt.Errorf("load: connections is %d: choose 1 to %d", d.Connections, maxConnections)
	case d.Timeout < 0:
		return d, fmt.Errorf("load: timeout is %v: choose a positive one", d.Timeout)
	}
	for _, line := range d.Header {
		if strings.ContainsAny(line, "\r\n") || !strings.Contains(line, ": ") {
			return d, fmt.Errorf("load: header %q: write it as \"Name: value\" on one line", line)
		}
	}
	return d, nil
}

// loadAddress takes the address to dial and the Host header out of a target URL.
func loadAddress(target string) (address, host string, err error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", "", fmt.Errorf("load: target %q: %w", target, err)
	}
	if u.Scheme != "http" || u.Hostname() == "" {
		return "", "", fmt.Errorf("load: target %q: give an http:// URL with a host; "+
			"for https put a terminating proxy in front and aim at that", target)
	}
	if u.Path != "" && u.Path != "/" {
		return "", "", fmt.Errorf("load: target %q: give the address only, paths come with the requests", target)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), u.Host, nil
}

var errStopped = errors.New("the run was stopped before the answer came")

// load sends cfg.Requests requests made by source and returns when every one of them is accounted for. When ctx
// ends it stops sending, waits up to two seconds (less if Timeout is less) for the answers under way, and
// returns what was measured; the result then says Stopped. An error means that the run could not begin.
func load(ctx context.Context, cfg loadConfig, source loadSource) (*loadResult, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	address, host, err := loadAddress(cfg.Target)
	if err != nil {
		return nil, err
	}
	poll, err := newPoller(cfg.Connections)
	if err != nil {
		return nil, fmt.Errorf("load: open a poller for %d connections: %w", cfg.Connections, err)
	}
	loop := newLoadLoop(cfg, address, host, source, poll)
	defer loop.close()
	if err := loop.connectAll(ctx); err != nil {
		return nil, err
	}
	loop.run(ctx)
	return loop.result, nil
}
