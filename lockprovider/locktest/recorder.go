package locktest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// failureLimit ends a case that hangs because of what was switched off.
	failureLimit = 30 * time.Second
	// caseLimit ends a case of the suite that hangs.
	caseLimit = 5 * time.Minute
	// tries is how often a case is run whose machine stood still meanwhile.
	tries = 3
)

// Failure runs one case and returns how it failed first; "" if it passed. Nothing of
// it fails the test that calls.
func Failure(h Harness, id string) string {
	c, ok := find(id)
	if !ok {
		return "no case " + id
	}
	r := &recorder{}
	r.carry(failureLimit, func() { c.Run(newEnv(r, h, c)) })
	return r.first()
}

// judge runs a case. A failure counts at once if it is a breach of what the lock is
// for (Env.Breach); a missed time only if neither the machine nor the store stood still
// meanwhile, since a process that does not run can keep no time.
func judge(t *testing.T, h Harness, c Case, m *meter) {
	for n := 1; ; n++ {
		r := &recorder{}
		began := time.Now()
		r.carry(caseLimit, func() { c.Run(newEnv(r, h, c)) })
		if r.first() == "" {
			t.Log(strings.Join(r.logs, "\n"))
			return
		}
		if stall := m.worst(began); stall > stalled && !r.breach && n < tries {
			t.Logf("once more, for the machine or the store stood still for %v: %s", stall, strings.Join(r.failures, "\n"))
			continue
		}
		t.Errorf("%s\n%s", strings.Join(r.failures, "\n"), strings.Join(r.logs, "\n"))
		return
	}
}

// recorder is a T that remembers what it is told.
type recorder struct {
	mu       sync.Mutex
	failures []string
	logs     []string
	breach   bool
	cleanups []func()
}

// carry runs f on a goroutine that Fatalf may end, and the clean-ups afterwards.
func (r *recorder) carry(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		r.Errorf("the case did not end within %v", limit)
	}
	r.clean()
	<-done // the providers are closed: what hung has ended
	r.clean()
}

func (r *recorder) first() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) == 0 {
		return ""
	}
	return short(r.failures[0])
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "recorder" }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	where := caller()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...)+" ("+where+")")
}

// caller is the first line outside the suite's helpers.
func caller() string {
	for skip := 2; ; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		name := file[strings.LastIndexByte(file, '/')+1:]
		if !ok || (name != "recorder.go" && name != "harness.go" && name != "waiting.go") {
			return fmt.Sprintf("%s:%d", name, line)
		}
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Breach is Errorf for a failure that no busy machine excuses.
func (r *recorder) Breach(format string, args ...any) {
	r.mu.Lock()
	r.breach = true
	r.mu.Unlock()
	r.Errorf(format, args...)
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// clean runs the clean-ups, the latest first.
func (r *recorder) clean() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		f()
	}
}
