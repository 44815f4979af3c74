package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeService is a shell script in the place of the service.
func fakeService(t *testing.T, script string) (program, logPath string) {
	dir := t.TempDir()
	program = filepath.Join(dir, "seckill")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, filepath.Join(dir, "seckill.log")
}

// untilTerm waits for SIGTERM as a service does; a sleep of the shell would delay it.
const untilTerm = "trap 'echo drained >&2; exit 0' TERM\necho 'ready http=127.0.0.1:1 admin=127.0.0.1:2'\n" +
	"while :; do sleep 0.05; done\n"

func TestServiceStartsAndStops(t *testing.T) {
	t.Setenv("SECKILL_STRAY", "x")
	program, log := fakeService(t, "env | grep ^SECKILL_ >&2\n"+untilTerm)
	s, err := startService(t.Context(), program, []string{"SECKILL_GIVEN=1"}, log)
	if err != nil {
		t.Fatal(err)
	}
	if s.public != "127.0.0.1:1" || s.admin != "127.0.0.1:2" {
		t.Errorf("addresses %q and %q", s.public, s.admin)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if tail := s.logTail(); tail != "SECKILL_GIVEN=1\ndrained" {
		t.Errorf("it wrote %q", tail)
	}
}

func TestServiceThatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"ends":  {"echo cannot reach the ledger >&2\nexit 1\n", "exit status 1; its log ends with\ncannot reach the ledger"},
		"other": {"echo hello\n" + untilTerm, "it said something else"},
	} {
		t.Run(name, func(t *testing.T) {
			program, log := fakeService(t, c.script)
			if _, err := startService(t.Context(), program, nil, log); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	_, err := startService(t.Context(), filepath.Join(t.TempDir(), "absent"), nil, filepath.Join(t.TempDir(), "log"))
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v", err)
	}
}

func TestServiceInterruptedWhileItStarts(t *testing.T) {
	program, log := fakeService(t, "trap 'exit 0' TERM\nwhile :; do sleep 0.05; done\n")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := startService(ctx, program, nil, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestServiceThatFailsIsReported(t *testing.T) {
	program, log := fakeService(t, "echo 'ready http=a:1 admin=a:2'\necho out of memory >&2\nexit 3\n")
	s, err := startService(t.Context(), program, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	<-s.gone
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "exit status 3; its log ends with\nout of memory") {
		t.Errorf("error %v", err)
	}
}

func TestOpenSale(t *testing.T) {
	var asked []string
	answer := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("use-delta"))
	}))
	defer server.Close()
	s := &service{admin: strings.TrimPrefix(server.URL, "http://"), token: "secret"}
	if err := s.openSale(t.Context(), "a1", "A sale", "s1", 10); err != nil {
		t.Fatal(err)
	}
	want := "PUT /admin/v1/activities/a1 Bearer secret\nPOST /admin/v1/activities/a1/open Bearer secret"
	if got := strings.Join(asked, "\n"); got != want {
		t.Errorf("asked %s", got)
	}
	answer = http.StatusConflict
	err := s.openSale(t.Context(), "a1", "A sale", "s1", 10)
	if err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), "use-delta") {
		t.Errorf("error %v", err)
	}
}
