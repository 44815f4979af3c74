// Package stacktest gives tests the four real servers. A package that uses it has
//
//	func TestMain(m *testing.M) { stacktest.Main(m) }
//
// and its tests call [Get] for the servers and [Namespace] for a name that no other
// test uses, so that they can run in parallel on one stack. Tests that kill, pause or
// restart servers take a stack of their own with [New].
//
// A server that cannot start fails the test and says what to install; nothing is
// skipped. The servers start at the first Get, so tests that need none do not wait.
package stacktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/deploy/stack"
)

// openTimeout bounds the start of a stack, servers of other test binaries competing
// for the processors included.
const openTimeout = 2 * time.Minute

// shared is the stack of this test binary.
var shared struct {
	once  sync.Once
	stack *stack.Stack
	err   error
}

// Option changes what [Main] does.
type Option func(*ending)

type ending struct {
	leakCheck   bool
	leakOptions []goleak.Option
	afterwards  []func() error
}

// Afterwards adds something to do when the tests are over and the stack has been
// stopped, before leaks are looked for. Its error fails the test binary.
func Afterwards(do func() error) Option {
	return func(e *ending) { e.afterwards = append(e.afterwards, do) }
}

// CheckLeaks fails the test binary if goroutines are left after the last test, when
// the stack has been stopped too. Use it in place of goleak.VerifyTestMain.
func CheckLeaks(options ...goleak.Option) Option {
	return func(e *ending) { e.leakCheck, e.leakOptions = true, options }
}

// Main runs the tests, stops the stack, checks that no child process is left, and
// exits.
func Main(m *testing.M, options ...Option) {
	var e ending
	for _, option := range options {
		option(&e)
	}
	code := m.Run()
	if err := e.check(code); err != nil {
		fmt.Fprintln(os.Stderr, "stacktest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (e *ending) check(code int) error {
	var err error
	if shared.stack != nil {
		err = shared.stack.Close()
	}
	for _, do := range e.afterwards {
		err = errors.Join(err, do())
	}
	err = errors.Join(err, leftChildren())
	if e.leakCheck && code == 0 { // goroutines of a failed test say nothing new
		err = errors.Join(err, goleak.Find(e.leakOptions...))
	}
	return err
}

// Get returns the stack that the tests of this binary share, started at the first
// call. It is stopped by [Main]. Do not stop, kill or pause its servers.
func Get(t testing.TB) *stack.Stack {
	t.Helper()
	shared.once.Do(func() { shared.stack, shared.err = open() })
	if shared.err != nil {
		t.Fatalf("stacktest: the servers did not start: %v", shared.err)
	}
	return shared.stack
}

// New starts a stack for one test, which may do with its servers as it likes. It is
// stopped when the test ends.
func New(t testing.TB) *stack.Stack {
	t.Helper()
	own, err := open()
	if err != nil {
		t.Fatalf("stacktest: the servers did not start: %v", err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Errorf("stacktest: stop the servers: %v", err)
		}
	})
	return own
}

func open() (*stack.Stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	lab, err := Lab()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "seckill-test-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the user that runs Postgres passes through
		return nil, err
	}
	return stack.Open(ctx, stack.Config{Dir: dir, Scratch: true, Lab: lab, StartTimeout: time.Minute})
}

// Namespace returns a value for SECKILL_NAMESPACE that no other test uses, also not in
// another run: up to 24 letters of the test's name, an underscore and six random ones.
func Namespace(t testing.TB) string {
	t.Helper()
	const most = 24
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, strings.TrimPrefix(t.Name(), "Test"))
	name = strings.TrimLeft(name, "_0123456789")
	name = strings.TrimRight(name[:min(len(name), most)], "_")
	if name == "" {
		name = "t"
	}
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = byte('a' + rand.IntN(26))
	}
	return name + "_" + string(suffix)
}
