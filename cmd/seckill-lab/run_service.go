package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	serviceStart = 60 * time.Second
	serviceStop  = 12 * time.Second // it drains within 10
	adminCall    = 45 * time.Second // opening may wait for settlement
	logLines     = 20               // of the service's log, shown when it fails
)

// service is a running "seckill serve".
type service struct {
	public, admin string // HOST:PORT
	token         string
	paymentKey    string // signs payments
	logPath       string
	process       *os.Process
	gone          chan struct{} // closed when it has ended
	ended         string        // how, once gone is closed
}

// startService starts "seckill serve" with the given configuration and returns when it says that it is ready.
// Its log goes to logPath.
func startService(ctx context.Context, program string, env []string, logPath string) (*service, error) {
	return startServing(ctx, exec.Command(program, "serve"), env, logPath)
}

// startServing starts a program that serves, and says that it is ready, as "seckill serve" does.
func startServing(ctx context.Context, cmd *exec.Cmd, env []string, logPath string) (*service, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("serve: create its log: %w", err)
	}
	defer log.Close()
	words, stdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	cmd.Env = append(withoutOurs(os.Environ()), env...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = stdout, log, serviceAttributes()
	s := &service{logPath: logPath, gone: make(chan struct{})}
	err = s.start(cmd)
	_ = stdout.Close() // the child's is the only one now, and ends with it
	if err != nil {
		_ = words.Close()
		return nil, fmt.Errorf("serve: start %s: %w; \"make build\" makes it", cmd.Path, err)
	}
	if err := s.awaitReady(ctx, words); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}

// start forks and waits on one operating system thread: where the parent's death reaches the child, it is the
// death of the thread that forked.
func (s *service) start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the child
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state says more than the error
			s.ended = cmd.ProcessState.String()
			close(s.gone)
		}
	}()
	return <-started
}

// withoutOurs drops configuration meant for another service: the stack's has to be the only one.
func withoutOurs(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, line := range environ {
		if !strings.HasPrefix(line, "SECKILL_") {
			kept = append(kept, line)
		}
	}
	return kept
}

// awaitReady reads "ready http=HOST:PORT admin=HOST:PORT" and drains what may come after it.
func (s *service) awaitReady(ctx context.Context, words *os.File) error {
	ready := make(chan bool, 1)
	go func() {
		defer words.Close()
		lines := bufio.NewReader(words)
		line, _ := lines.ReadString('\n')
		n, _ := fmt.Sscanf(line, "ready http=%s admin=%s", &s.public, &s.admin)
		ready <- n == 2
		_, _ = io.Copy(io.Discard, lines)
	}()
	patience := time.NewTimer(serviceStart)
	defer patience.Stop()
	var why string
	select {
	case ok := <-ready:
		if ok {
			return nil
		}
		if why = "it said something else"; s.endsWithin(time.Second) {
			why = "it ended with " + s.ended
		}
	case <-ctx.Done():
		return fmt.Errorf("serve: wait until it is ready: %w", context.Cause(ctx))
	case <-patience.C:
		why = fmt.Sprintf("nothing within %v", serviceStart)
	}
	return fmt.Errorf("serve: wait for its ready line: %s; its log ends with\n%s", why, s.logTail())
}

func (s *service) endsWithin(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.gone:
		return true
	case <-timer.C:
		return false
	}
}

// stop drains the service and kills it if it takes too long.
func (s *service) stop() error {
	_ = s.process.Signal(syscall.SIGTERM)
	if !s.endsWithin(serviceStop) {
		_ = s.process.Kill()
		<-s.gone
		return fmt.Errorf("serve: it did not end within %v of SIGTERM and was killed; its log ends with\n%s",
			serviceStop, s.logTail())
	}
	if s.ended != "exit status 0" {
		return fmt.Errorf("serve: it ended with %s; its log ends with\n%s", s.ended, s.logTail())
	}
	return nil
}

func (s *service) logTail() string {
	text, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-logLines):], []byte("\n")))
}

// sale is an activity as the admin API takes it.
type sale struct {
	Title         string    `json:"title"`
	StartsAt      time.Time `json:"starts_at"`
	EndsAt        time.Time `json:"ends_at"`
	PaymentWindow string    `json:"payment_window,omitempty"`
	SKUs          []saleSKU `json:"skus"`
}

type saleSKU struct {
	SKU          string `json:"sku"`
	Total        int64  `json:"total"`
	LimitPerUser int64  `json:"limit_per_user"`
	Price        int64  `json:"price"`
}

// openSale creates and opens an activity with one SKU, a unit a buyer.
func (s *service) openSale(ctx context.Context, activity, title, sku string, units int64) error {
	return s.openSKUs(ctx, activity, title, []string{sku}, units, 1)
}

// openSKUs creates an activity that began a minute ago and lasts a day, with as many units of each SKU, and opens
// it.
func (s *service) openSKUs(ctx context.Context, activity, title string, skus []string, units, limit int64) error {
	return s.open(ctx, activity, newSale(title, skus, units, limit))
}

// unitPrice is what a unit costs in every sale of the lab.
const unitPrice = 9900

func newSale(title string, skus []string, units, limit int64) sale {
	now := time.Now().UTC().Truncate(time.Second)
	sale := sale{Title: title, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(24 * time.Hour)}
	for _, sku := range skus {
		sale.SKUs = append(sale.SKUs, saleSKU{SKU: sku, Total: units, LimitPerUser: limit, Price: unitPrice})
	}
	return sale
}

// open creates an activity and opens it.
func (s *service) open(ctx context.Context, activity string, sale sale) error {
	body, err := json.Marshal(sale)
	if err != nil {
		return fmt.Errorf("create activity %s: %w", activity, err)
	}
	path := "/admin/v1/activities/" + activity
	if err := s.callAdmin(ctx, http.MethodPut, path, body); err != nil {
		return err
	}
	return s.callAdmin(ctx, http.MethodPost, path+"/open", nil)
}

func (s *service) callAdmin(ctx context.Context, method, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, adminCall)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.admin+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil || answer.StatusCode/100 != 2 {
		return fmt.Errorf("admin API: %s %s: %s %s", method, path, answer.Status, said)
	}
	return nil
}
