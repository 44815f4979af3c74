package main

import (
	"bufio"
	"io"
	"testing"
)

// BenchmarkLoadEngine is the whole cost of one request, the answering handler included. For the ratio to wrk:
// seckill-lab noop.
func BenchmarkLoadEngine(b *testing.B) {
	target := startNoopHere(b)
	b.ReportAllocs()
	b.ResetTimer()
	r, err := load(b.Context(), loadConfig{Target: target, Requests: int64(b.N)}, noopRequest)
	if err != nil || r.Answered != int64(b.N) {
		b.Fatalf("%v, %+v", err, r)
	}
}

func BenchmarkParseAnswer(b *testing.B) {
	const wire = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
		"Content-Length: 57\r\n\r\n" + `{"order_id":"0190b3a0-0000-7000-8000-000000000000","a":1}`
	buf := []byte(wire)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := parseAnswer(buf); n != len(wire) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func TestNoopAnswersUntilItsStarterIsGone(t *testing.T) {
	target := startNoopHere(t)
	r, err := load(t.Context(), loadConfig{Target: target, Requests: 1000, Connections: 8}, noopRequest)
	if err != nil || r.Count("202") != 1000 {
		t.Fatalf("%v, %+v", err, r)
	}
}

// startNoopHere serves in this process; the end of the test closes its standard input.
func startNoopHere(tb testing.TB) (target string) {
	stdin, starter := io.Pipe()
	stdout, words := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- serveNoop(tb.Context(), stdin, words) }()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = starter.Close()
		if err := <-over; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + address[:len(address)-1]
}
