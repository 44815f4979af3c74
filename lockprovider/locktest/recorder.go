package locktest

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// failureLimit ends a case that hangs because of what was switched off.
const failureLimit = 15 * time.Second

// Failure runs one case and returns how it failed first; "" if it passed. Nothing of
// it fails the test that calls.
func Failure(h Harness, id string) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		RunOne(r, h, id)
	}()
	select {
	case <-done:
	case <-time.After(failureLimit):
		r.Errorf("the case did not end within %v", failureLimit)
	}
	r.clean()
	<-done // the providers are closed: what hung has ended
	r.clean()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

// recorder is a T that only remembers the first failure.
type recorder struct {
	mu       sync.Mutex
	first    string
	cleanups []func()
}

func (r *recorder) Helper()             {}
func (r *recorder) Name() string        { return "recorder" }
func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = short(fmt.Sprintf(format, args...))
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != ""
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
