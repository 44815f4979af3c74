package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// builtService is the service beside the lab, as "make build" leaves them.
var builtService = sync.OnceValues(func() (string, error) {
	lab, err := program()
	if err != nil {
		return "", err
	}
	service := filepath.Join(filepath.Dir(lab), "seckill")
	out, err := exec.Command("go", "build", "-race=false", "-o", service, "../seckill").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return service, nil
})

// runCommand is a small sale whose temporary folder is temp.
func runCommand(t *testing.T, temp string, options ...string) *exec.Cmd {
	if _, err := builtService(); err != nil {
		t.Fatal(err)
	}
	lab, err := program()
	if err != nil {
		t.Fatal(err)
	}
	options = append([]string{"run", "--units", "40", "--buyers", "400", "--requests", "1000"}, options...)
	cmd := exec.Command(lab, options...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(goneTimeout)
	for {
		left, err := os.ReadDir(dir)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left in the temporary folder: %v, %v", left, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRunSellsEverythingOnceAndEnds(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"etcd", "redis"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			cmd := runCommand(t, temp, "--oneshot", "--lock", lock)
			var out, words bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &words
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, &out, &words)
			}
			for _, want := range []string{
				`asked +1,000`, `admitted \(202\) +40`, `sold +40 of 40`, `settled +40 of 40`, `sold out after`,
				`all settled after`, `latency +p50 `, `total 40 = stock 0 \+ live 40; gate 0`, `clean:`, "leases in " + lock,
			} {
				if !regexp.MustCompile(want).Match(out.Bytes()) {
					t.Errorf("the report has no %q:\n%s", want, &out)
				}
			}
			if strings.ContainsRune(words.String(), '\r') {
				t.Errorf("a progress bar without a terminal: %q", &words)
			}
			mustBeEmpty(t, temp)
		})
	}
}

// Four of ten buyers do not pay: their orders expire, and the units are sold again until all are paid.
func TestRunSellsAgainWhatIsNotPaid(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := runCommand(t, temp, "--oneshot", "--payment-window", "1s", "--unpaid", "40")
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &words)
	}
	for _, want := range []string{
		`1s to pay; 40 % of the buyers do not`, `after .* 40 paid, 0 to be paid, [1-9]\d* expired`, `all paid after`,
		`total 40 = stock 0 \+ live 40; gate 0; paid 40, expired [1-9]`, `clean:`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
	mustBeEmpty(t, temp)
}

func TestRunInterruptedEndsInOrder(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := runCommand(t, temp, "--oneshot", "--requests", "400", "--connections", "1", "--rate", "20")
	words, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(words)
	for line := ""; !strings.HasPrefix(line, "sending"); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT) // the crowd would take 20 s
	rest, _ := io.ReadAll(lines)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(rest), "interrupt") {
		t.Errorf("%v, %s", err, rest)
	}
	mustBeEmpty(t, temp)
}

// stayingUp starts a run and returns when it has printed what can be tried.
func stayingUp(t *testing.T, temp string) (cmd *exec.Cmd, buyers string) {
	cmd = runCommand(t, temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	var all strings.Builder
	for line := ""; !strings.Contains(line, "/metrics"); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v after\n%s", err, &all)
		}
		all.WriteString(line)
		if _, found := strings.CutPrefix(line, "  buyers     "); found {
			buyers = strings.TrimSpace(line[len("  buyers     "):])
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return cmd, buyers
}

func TestRunStaysUpUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd, buyers := stayingUp(t, temp)
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, buyers+"/v1/activities/"+tryActivity+"/orders",
		strings.NewReader(`{"sku":"s1","quantity":1}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-User-ID", "me")
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Errorf("an order of one's own: %s", answer.Status)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	mustBeEmpty(t, temp)
	mustRefuse(t, buyers)
}

func TestKilledRunLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd, buyers := stayingUp(t, temp)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	mustBeEmpty(t, temp)
	if runtime.GOOS == "linux" { // elsewhere nothing tells the service that its starter was killed
		mustRefuse(t, buyers)
	}
}

// mustRefuse waits until nobody listens there.
func mustRefuse(t *testing.T, url string) {
	t.Helper()
	deadline := time.Now().Add(goneTimeout)
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("%s still answers", url)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRunRefusesOptionsThatCannotWork(t *testing.T) {
	for want, options := range map[string][]string{
		"use etcd or redis":   {"--lock", "zookeeper"},
		"at least one unit":   {"--units", "0"},
		"no more than buyers": {"--units", "11", "--buyers", "10"},
		"unknown command":     {"now"},
		"one request each":    {"--buyers", "5000", "--requests", "4999"},
		"choose 1 to":         {"--connections", "0"},
		"whole milliseconds":  {"--payment-window", "1.5ms"},
		"choose 0 to 80":      {"--payment-window", "1s", "--unpaid", "81"},
		"too few are left":    {"--payment-window", "1s", "--buyers", "3000"},
	} {
		root := rootCommand()
		root.SetArgs(append([]string{"run"}, options...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run %v: %v, want %q", options, err, want)
		}
	}
}
