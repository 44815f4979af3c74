package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
)

// installed is an installation of its own on the real servers, worked by commands.
type installed struct {
	t         *testing.T
	namespace string
	environ   []string
}

func newInstalled(t *testing.T, lockBackend string) *installed {
	t.Helper()
	i := &installed{t: t, namespace: stacktest.Namespace(t)}
	i.environ = append(stacktest.Get(t).Env(lockBackend), "SECKILL_NAMESPACE="+i.namespace, "SECKILL_LOCK_TTL=2s")
	i.must(exitDone, "migrate", "--yes")
	return i
}

// must runs a command line, which has to end with code.
func (i *installed) must(code int, args ...string) ran {
	i.t.Helper()
	got := runWith(i.t, i.environ, args...)
	if got.code != code {
		i.t.Fatalf("seckill %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got.code, code, got.stdout, got.stderr)
	}
	return got
}

// answer runs a command line that has to succeed and reads its JSON.
func (i *installed) answer(into any, args ...string) {
	i.t.Helper()
	got := i.must(exitDone, append(args, "--output", "json")...)
	if err := json.Unmarshal([]byte(got.stdout), into); err != nil {
		i.t.Fatalf("seckill %s: %v in %q", strings.Join(args, " "), err, got.stdout)
	}
}

// query reads one text from the ledger.
func (i *installed) query(sql string, args ...any) string {
	i.t.Helper()
	conn, err := pgx.Connect(i.t.Context(), stacktest.Get(i.t).PostgresURL())
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = conn.Close(i.t.Context()) }()
	if _, err := conn.Exec(i.t.Context(), `set search_path to `+pgx.Identifier{i.namespace}.Sanitize()); err != nil {
		i.t.Fatal(err)
	}
	var text string
	if err := conn.QueryRow(i.t.Context(), sql, args...).Scan(&text); err != nil {
		i.t.Fatal(err)
	}
	return text
}

// served is a process that serves.
type served struct {
	t           *testing.T
	http, admin string
	end         context.CancelFunc
	done        chan struct{}
	code        int
	stderr      *lockedBuffer
}

// serve starts the service and returns when it is ready; the test's end drains it.
func (i *installed) serve(args ...string) *served {
	i.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{t: i.t, end: cancel, done: make(chan struct{}), stderr: new(lockedBuffer)}
	out, in := io.Pipe()
	go func() {
		defer close(s.done)
		s.code = newProgram(func() []string { return i.environ }).Run(ctx, append([]string{"serve"}, args...), strings.NewReader(""), in, s.stderr)
		_ = in.Close()
	}()
	i.t.Cleanup(func() { s.stop() })
	line := make([]byte, 200)
	n, err := out.Read(line)
	fields := strings.Fields(string(line[:n]))
	if err != nil || len(fields) != 3 || fields[0] != "ready" {
		s.stop()
		i.t.Fatalf("serve printed %q, %v\n%s", line[:n], err, s.stderr)
	}
	s.http, s.admin = strings.TrimPrefix(fields[1], "http="), strings.TrimPrefix(fields[2], "admin=")
	return s
}

// stop drains the service and returns what it ended with.
func (s *served) stop() int {
	s.end()
	<-s.done
	return s.code
}

// request asks the admin address, with the token of the stack.
func (s *served) request(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.admin+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+stacktest.Get(s.t).AdminToken())
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 40 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// lockedBuffer is a buffer that a running service writes and a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually polls until ok, for a time that only a broken system needs.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		done, seen := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s; last seen: %s", what, seen)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
