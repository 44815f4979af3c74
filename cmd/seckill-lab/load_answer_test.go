package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestParseAnswerTakesWholeAnswers(t *testing.T) {
	for _, c := range []struct {
		name, wire string
		status     int
		body       string
		close      bool
	}{
		{"length", "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello", 202, "hello", false},
		{"no reason", "HTTP/1.1 202\r\ncontent-length:0\r\n\r\n", 202, "", false},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false},
		{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "", false},
		{"close", "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 503, "x", true},
		{"1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
		{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
		{"interim first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
		{
			"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"5;a=b\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
			200, "hello 0123456789", false,
		},
		{"empty chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 200, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for end := range len(c.wire) { // however it is cut, nothing is taken before all of it is there
				if _, n, err := parseAnswer([]byte(c.wire[:end])); n != 0 || err != nil {
					t.Fatalf("took %d of the first %d bytes, error %v", n, end, err)
				}
			}
			a, n, err := parseAnswer([]byte(c.wire + "HTTP/1.1 500 next"))
			if err != nil || n != len(c.wire) {
				t.Fatalf("took %d bytes of %d, error %v", n, len(c.wire), err)
			}
			if a.status != c.status || string(a.body) != c.body || a.close != c.close {
				t.Fatalf("status %d body %q close %v", a.status, a.body, a.close)
			}
		})
	}
}

func TestParseAnswerRefusesWhatIsNotClear(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, wire string
		want       error
	}{
		{"other protocol", "SSH-2.0-OpenSSH_9.2\r\n", errNotHTTP},
		{"HTTP/2 preface", "HTTP/2.0 200 OK\r\n\r\n", errNotHTTP},
		{"status letters", "HTTP/1.1 2x2 OK\r\n", errNotHTTP},
		{"status of four digits", "HTTP/1.1 2022 OK\r\n", errNotHTTP},
		{"status 600", "HTTP/1.1 600 OK\r\n", errNotHTTP},
		{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\n\r\n", errNotHTTP},
		{"bare newline", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", errHeader},
		{"folded line", ok + "A: b\r\n c\r\n", errHeader},
		{"space before colon", ok + "Content-Length : 3\r\n", errHeader},
		{"no colon", ok + "Content-Length 3\r\n", errHeader},
		{"no framing", ok + "A: b\r\n\r\n", errNoLength},
		{"both framings", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", errNoLength},
		{"two lengths", ok + "Content-Length: 3\r\nContent-Length: 4\r\n", errNoLength},
		{"length list", ok + "Content-Length: 3, 3\r\n", errHeader},
		{"negative length", ok + "Content-Length: -1\r\n", errHeader},
		{"plus length", ok + "Content-Length: +1\r\n", errHeader},
		{"empty length", ok + "Content-Length:\r\n", errHeader},
		{"huge length", ok + "Content-Length: 99999999\r\n", errBodyLimit},
		{"absurd length", ok + "Content-Length: 99999999999999999999\r\n", errHeader},
		{"gzip coding", ok + "Transfer-Encoding: gzip, chunked\r\n", errCoding},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", errCoding},
		{"coding of 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errCoding},
		{"endless header", ok + strings.Repeat("A: b\r\n", maxHeadBytes), errHeadLimit},
		{"chunk size", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", errChunk},
		{"negative chunk", ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", errChunk},
		{"chunk end", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", errChunk},
		{"chunk newline", ok + "Transfer-Encoding: chunked\r\n\r\n1\na\r\n", errChunk},
		{"huge chunk", ok + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", errBodyLimit},
		{"endless chunk line", ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", maxChunkLine), errChunk},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, n, err := parseAnswer([]byte(c.wire)); n != 0 || !errors.Is(err, c.want) {
				t.Fatalf("took %d, error %v, want %v", n, err, c.want)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{202, `{"order_id":"x"}`, "202"},
		{200, `{"type":"/problems/odd"}`, "200"},
		{409, `{"type":"/problems/sold-out","title":"x"}`, "409 sold-out"},
		{409, `{ "status": 409, "type" : "https://example.org/p#limit-reached" }`, "409 limit-reached"},
		{503, `{"type":"urn:seckill:not-ready"}`, "503 not-ready"},
		{500, `{"type":"about:blank"}`, "500"},
		{502, "<html>bad gateway</html>", "502"},
		{400, `{"type":7}`, "400"},
		{400, `{"type":"a\"b"}`, "400"},
		{400, `{"type":"unfinished`, "400"},
	} {
		if got := kindOf(nil, c.status, []byte(c.body)); string(got) != c.want {
			t.Errorf("%d %s: %q, want %q", c.status, c.body, got, c.want)
		}
	}
}

// What is accepted is what net/http would have read, and a cut answer is never taken for a whole one.
func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204 No Content\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		buf := bytes.Clone(wire)
		a, n, err := parseAnswer(buf)
		if err != nil || n == 0 {
			return
		}
		if n > len(wire) {
			t.Fatalf("took %d of %d bytes", n, len(wire))
		}
		if _, m, err := parseAnswer(bytes.Clone(wire[:n-1])); m != 0 || err != nil {
			t.Fatalf("took %d of the %d bytes without the last, error %v", m, n, err)
		}
		compareWithNetHTTP(t, wire[:n], a)
	})
}

func compareWithNetHTTP(t *testing.T, wire []byte, a httpAnswer) {
	reader := bufio.NewReader(bytes.NewReader(wire))
	for {
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			return // stricter in what a header may contain; that does not move the end of an answer
		}
		if r.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.StatusCode != a.status || !bytes.Equal(body, a.body) {
			t.Fatalf("%d %q, net/http reads %d %q", a.status, a.body, r.StatusCode, body)
		}
		return
	}
}
