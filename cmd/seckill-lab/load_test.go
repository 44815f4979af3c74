package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// numbered makes requests whose buyer is the number of the request.
func numbered(n int64, r *loadRequest) {
	r.Path = append(r.Path[:0], "/v1/activities/a/orders"...)
	r.Buyer = strconv.AppendInt(r.Buyer[:0], n, 10)
	r.Key = append(append(r.Key[:0], "key-"...), r.Buyer...)
	r.Body = append(r.Body[:0], `{"sku":"s1","quantity":1}`...)
}

// askedAs is the number of the request that a server got.
func askedAs(r *http.Request) int {
	n, err := strconv.Atoi(r.Header.Get("X-User-ID"))
	if err != nil || r.Header.Get("Idempotency-Key") != "key-"+r.Header.Get("X-User-ID") {
		panic(fmt.Sprintf("a request of buyer %q with key %q", r.Header.Get("X-User-ID"), r.Header.Get("Idempotency-Key")))
	}
	return n
}

// runLoad runs to the end and checks what holds after every run: nothing is lost, every request that was sent
// is told of exactly once, and no goroutine is left.
func runLoad(t *testing.T, ctx context.Context, cfg loadConfig) (*loadResult, map[int64]loadAnswer) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	told := map[int64]loadAnswer{}
	cfg.Answer = func(a *loadAnswer) {
		if _, twice := told[a.N]; twice {
			t.Errorf("request %d was told of twice", a.N)
		}
		kept := *a
		kept.OrderID, kept.Body = append([]byte(nil), a.OrderID...), append([]byte(nil), a.Body...)
		told[a.N] = kept
	}
	r, err := load(ctx, cfg, numbered)
	if err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
	unknown, kinds := int64(0), int64(0)
	for _, n := range r.Reasons {
		unknown += n
	}
	for _, kind := range r.Kinds {
		kinds += kind.Count
	}
	if r.Asked != cfg.Requests || r.Asked != r.Sent+r.Unsent || r.Sent != r.Answered+r.Unknown ||
		r.Sent != int64(len(told)) || unknown != r.Unknown || kinds != r.Answered ||
		r.Latency.Count() != r.Answered || r.Lateness.Count() != r.Sent {
		t.Errorf("the counts do not add up: %+v, told of %d", r, len(told))
	}
	return r, told
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func wantKinds(t *testing.T, r *loadResult, want map[string]int64) {
	t.Helper()
	got := map[string]int64{}
	for _, kind := range r.Kinds {
		got[kind.Name] = kind.Count
	}
	if !maps.Equal(got, want) {
		t.Errorf("answers %v, want %v (unknown: %v, %s)", got, want, r.Reasons, r.Example)
	}
}

func wantReasons(t *testing.T, r *loadResult, want map[string]int64) {
	t.Helper()
	if !maps.Equal(r.Reasons, want) {
		t.Errorf("unknown outcomes %v, want %v (%s)", r.Reasons, want, r.Example)
	}
}

func TestLoadCountsEveryKindOfAnswer(t *testing.T) {
	const requests = 5000
	var got [requests]atomic.Int32
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := askedAs(r)
		got[n].Add(1)
		if body, _ := io.ReadAll(r.Body); string(body) != `{"sku":"s1","quantity":1}` || r.Method != "POST" {
			t.Errorf("request %d is %s %q", n, r.Method, body)
		}
		switch n % 5 {
		case 0:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, `{"order_id":"order-%d","status":"accepted"}`, n)
		case 1:
			fmt.Fprintf(w, `{"status":"confirmed","order_id":"order-%d"}`, n)
		case 2:
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"type":"https://seckill.example/problems/sold-out","title":"Sold out","status":409}`)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"type":"/problems/outcome-unknown","order_id":"order-%d","detail":"`, n)
			w.(http.Flusher).Flush() // chunked from here on
			io.WriteString(w, strings.Repeat("x", 10_000)+`"}`)
		case 4:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	r, told := runLoad(t, t.Context(), loadConfig{Target: target, Requests: requests, Connections: 32})
	wantKinds(t, r, map[string]int64{
		"202": 1000, "200": 1000, "409 sold-out": 1000, "503 outcome-unknown": 1000, "204": 1000,
	})
	for n := range int64(requests) {
		if got[n].Load() != 1 {
			t.Fatalf("the server got request %d %d times", n, got[n].Load())
		}
		want := ""
		if n%5 == 0 || n%5 == 1 || n%5 == 3 {
			want = fmt.Sprintf("order-%d", n)
		}
		if id := string(told[n].OrderID); id != want {
			t.Fatalf("request %d got order %q, want %q", n, id, want)
		}
	}
	if r.Count("409") != 1000 || r.Count("20") != 0 || r.Reconnects != 0 || r.Rate() <= 0 {
		t.Errorf("409: %d, reconnects %d, rate %v", r.Count("409"), r.Reconnects, r.Rate())
	}
}

func TestLoadReportsAServerThatNeverAnswers(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // from here on the server sees the client going away
		if askedAs(r)%10 == 3 {
			select {
			case <-r.Context().Done():
			case <-done:
			}
		}
	})
	r, told := runLoad(t, t.Context(),
		loadConfig{Target: target, Requests: 100, Connections: 4, Timeout: 300 * time.Millisecond})
	wantReasons(t, r, map[string]int64{"time-out": 10})
	wantKinds(t, r, map[string]int64{"200": 90})
	if told[3].Err == nil || told[3].Status != 0 || told[3].Latency() < 300*time.Millisecond {
		t.Errorf("the third request: %+v", told[3])
	}
}

func TestLoadCountsClosedConnectionsAsUnknown(t *testing.T) {
	var got atomic.Int64
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got.Add(1)
		if askedAs(r)%10 == 0 {
			panic(http.ErrAbortHandler) // net/http closes without an answer
		}
	})
	r, _ := runLoad(t, t.Context(), loadConfig{Target: target, Requests: 500, Connections: 8})
	wantReasons(t, r, map[string]int64{"connection closed": 50})
	wantKinds(t, r, map[string]int64{"200": 450})
	if got.Load() != 500 || r.Reconnects == 0 {
		t.Errorf("the server got %d requests, reconnects %d", got.Load(), r.Reconnects)
	}
}

func TestLoadDialsAgainWhenAnswersClose(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	r, _ := runLoad(t, t.Context(), loadConfig{Target: target, Requests: 300, Connections: 8})
	wantKinds(t, r, map[string]int64{"200": 300})
	if r.Reconnects < 300-2*8 {
		t.Errorf("%d reconnects", r.Reconnects)
	}
}

func TestLoadRefusesBrokenAnswers(t *testing.T) {
	for _, broken := range []string{
		"SMTP ready\r\n",
		"HTTP/1.1 200 OK\r\n\r\nno length",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeadBytes),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", maxBodyBytes),
	} {
		target := rawServer(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, broken)
			_, _ = io.Copy(io.Discard, conn)
		})
		r, told := runLoad(t, t.Context(), loadConfig{Target: target, Requests: 3, Connections: 3})
		wantReasons(t, r, map[string]int64{"bad answer": 3})
		if told[0].Err == nil || r.Example == "" {
			t.Errorf("%.40q: no error told", broken)
		}
	}
}

func TestLoadCountsAnAnswerWithMoreBehindItAndCloses(t *testing.T) {
	target := rawServer(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 500 forged\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	r, _ := runLoad(t, t.Context(), loadConfig{Target: target, Requests: 20, Connections: 2})
	wantKinds(t, r, map[string]int64{"200": 20})
	wantReasons(t, r, nil)
}

// rawServer hands each connection to talk and closes it afterwards.
func rawServer(t *testing.T, talk func(net.Conn)) (target string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				talk(conn)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}
