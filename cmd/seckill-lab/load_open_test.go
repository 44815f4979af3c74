package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// While a server stalls, everybody who meant to ask waits: that shows in the latency although only one request
// was under way.
func TestLoadCountsLatencyFromTheIntendedTime(t *testing.T) {
	var stall sync.Once
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		stall.Do(func() {
			select {
			case <-time.After(300 * time.Millisecond): // the stall is what is tested, nothing waits for it to pass
			case <-r.Context().Done():
			}
		})
	})
	r, told := runLoad(t, t.Context(),
		loadConfig{Target: target, Requests: 200, Connections: 1, Pace: constantPace(1000)})
	wantKinds(t, r, map[string]int64{"200": 200})
	waited := 0
	for n := range int64(200) {
		if told[n].Intended != time.Duration(n)*time.Millisecond || told[n].Sent < told[n].Intended {
			t.Fatalf("request %d: %+v", n, told[n])
		}
		if told[n].Latency() > 100*time.Millisecond {
			waited++
		}
	}
	if waited < 190 { // the last of them was due at 199 ms, 101 ms before the stall ended
		t.Errorf("only %d of 200 saw the stall", waited)
	}
	if kept, words := r.RateKept(); kept || !strings.Contains(words, "no connection was free") {
		t.Errorf("a stall of 300 ms was called %v, %q", kept, words)
	}
}

// A service that dies in the middle and comes back: what it did not take in the meantime is counted, and the
// rest is sent.
func TestLoadOutlivesARestartOfTheServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	var answered atomic.Int64
	half := make(chan struct{})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if answered.Add(1) == 300 {
			close(half)
		}
	})
	first := &http.Server{Handler: handler}
	second := &http.Server{Handler: handler}
	over := make(chan error, 2)
	go func() { over <- first.Serve(listener) }()
	go func() {
		<-half
		_ = first.Close() // every connection breaks, as when the process is killed
		again, err := net.Listen("tcp", address)
		if err != nil {
			over <- err
			return
		}
		over <- second.Serve(again)
	}()
	r, _ := runLoad(t, t.Context(),
		loadConfig{Target: "http://" + address, Requests: 1000, Connections: 8, Pace: constantPace(2000)})
	_ = second.Close()
	for range 2 {
		if err := <-over; err != http.ErrServerClosed {
			t.Fatal(err)
		}
	}
	if r.Unsent != 0 || r.Unknown > 8 || r.Reconnects < 1 {
		t.Errorf("unsent %d, unknown %d (%v), reconnects %d", r.Unsent, r.Unknown, r.Reasons, r.Reconnects)
	}
}

func TestLoadCountsWhatADeadServerNeverGot(t *testing.T) {
	for _, pace := range []loadPacer{spikePace{}, constantPace(10_000)} {
		var asked atomic.Int64
		var server *http.Server
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server = &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if asked.Add(1) == 100 {
				_ = server.Close()
			}
		})}
		over := make(chan error, 1)
		go func() { over <- server.Serve(listener) }()
		r, _ := runLoad(t, t.Context(), loadConfig{
			Target: "http://" + listener.Addr().String(), Requests: 2000, Connections: 4,
			Pace: pace, Timeout: 300 * time.Millisecond,
		})
		<-over
		if r.Unsent < 1800 || r.Answered < 90 {
			t.Errorf("%T: answered %d, unknown %v, unsent %d", pace, r.Answered, r.Reasons, r.Unsent)
		}
		if kept, words := r.RateKept(); kept || !strings.Contains(words, "not sent") {
			t.Errorf("%T: called %v, %q", pace, kept, words)
		}
	}
}

func TestLoadStopsInOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		switch n := askedAs(r); {
		case n == 50: // never answers
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case n == 200:
			cancel()
		}
	})
	r, told := runLoad(t, ctx, loadConfig{Target: target, Requests: 1 << 40, Connections: 4})
	close(release)
	wantReasons(t, r, map[string]int64{"stopped": 1})
	if !r.Stopped || r.Unsent == 0 || told[50].Err == nil {
		t.Errorf("stopped %v, unsent %d, request 50: %+v", r.Stopped, r.Unsent, told[50])
	}
}

func TestLoadSendsLongRequestsInPieces(t *testing.T) {
	body := strings.Repeat("x", maxRequestBytes-1000)
	small := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { // more than this has to wait until the server reads
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 2048)
		})
	}}
	listener, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var got atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if sent, _ := io.ReadAll(r.Body); string(sent) == body {
			got.Add(1)
		}
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	r, err := load(t.Context(), loadConfig{Target: server.URL, Requests: 20, Connections: 4},
		func(_ int64, r *loadRequest) {
			r.Path = append(r.Path[:0], "/long"...)
			r.Body = append(r.Body[:0], body...)
		})
	if err != nil || r.Count("200") != 20 || got.Load() != 20 {
		t.Errorf("%v, %+v, the server got %d whole bodies", err, r, got.Load())
	}
}

func TestLoadDoesNotSendWhatIsTooLong(t *testing.T) {
	target := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	r, err := load(t.Context(), loadConfig{Target: target, Requests: 3, Connections: 1},
		func(_ int64, r *loadRequest) { r.Body = make([]byte, maxRequestBytes) })
	if err != nil || r.Reasons["request too long"] != 3 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestLoadRefusesToStart(t *testing.T) {
	before := goleak.IgnoreCurrent()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	_ = listener.Close()
	for want, cfg := range map[string]loadConfig{
		"check that the service is running": {Target: nobody, Requests: 1, Connections: 3},
		"https":                             {Target: "https://localhost", Requests: 1},
		"address only":                      {Target: "http://localhost/v1", Requests: 1},
		"at least one":                      {Target: nobody},
		"connections":                       {Target: nobody, Requests: 1, Connections: -1},
		"timeout":                           {Target: nobody, Requests: 1, Timeout: -1},
		"on one line":                       {Target: nobody, Requests: 1, Header: []string{"A: b\r\nC: d"}},
	} {
		if _, err := load(t.Context(), cfg, numbered); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", cfg, err, want)
		}
	}
	goleak.VerifyNone(t, before)
}

// Both pollers carry the same load; the portable one is used elsewhere than on Linux.
func TestLoadWithEveryPoller(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if askedAs(r)%7 == 0 {
			w.Header().Set("Connection", "close")
		}
	})
	for name, open := range map[string]func(int) (poller, error){
		"native": newPoller,
		"poll":   func(size int) (poller, error) { return newPollAll(size), nil },
	} {
		for _, pace := range []loadPacer{spikePace{}, constantPace(5000)} {
			t.Run(fmt.Sprintf("%s/%T", name, pace), func(t *testing.T) {
				cfg, err := (&loadConfig{Target: target, Requests: 500, Connections: 16, Pace: pace}).withDefaults()
				if err != nil {
					t.Fatal(err)
				}
				poll, err := open(cfg.Connections)
				if err != nil {
					t.Fatal(err)
				}
				loop := newLoadLoop(cfg, strings.TrimPrefix(target, "http://"), "x", numbered, poll)
				defer loop.close()
				if err := loop.connectAll(t.Context()); err != nil {
					t.Fatal(err)
				}
				loop.run(t.Context())
				wantKinds(t, loop.result, map[string]int64{"200": 500})
			})
		}
	}
}
