package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	probeEvery   = 15 * time.Millisecond  // between two questions to a starting server
	probeTimeout = 2 * time.Second        // for the answer to one question
	retryEvery   = 100 * time.Millisecond // between two attempts to start a server
	portAttempts = 8                      // fresh ports tried at the first start
	killTimeout  = 5 * time.Second        // for the kernel to take a killed process away
	agonyTimeout = 2 * time.Second        // for a server that was just killed to be seen as gone
)

// program is what differs between the four servers.
type program interface {
	name() string
	// addresses picks fresh ports.
	addresses() error
	// address is where the server answers its clients.
	address() string
	// prepare makes the folders and data that the server needs. Repeatable.
	prepare(ctx context.Context) error
	command() *exec.Cmd
	// probe asks the server one real question and checks that it is this very
	// process, or at least this very stack's server, that answered.
	probe(ctx context.Context, pid int) error
	// stopSignal is the signal of an orderly end.
	stopSignal() syscall.Signal
}

// server is one of the four, up or down.
type server struct {
	program      program
	dir          string
	log          *slog.Logger
	spawner      *spawner
	guard        *guardLink
	startTimeout time.Duration
	stopTimeout  time.Duration
	closing      context.Context // the stack's

	turn    sync.Mutex // held through a start or a stop
	retired bool       // guarded by turn

	mu    sync.Mutex
	child *child // the latest; nil before the first start
}

func (s *server) name() string { return s.program.name() }

func (s *server) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil || s.child.dead() {
		return nil
	}
	return s.child
}

func (s *server) pid() int {
	if c := s.current(); c != nil {
		return c.pid()
	}
	return 0
}

// open is the first start: ports may still be chosen, so a clash is answered with
// others.
func (s *server) open(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.startTimeout)
	defer cancel()
	if err := s.program.prepare(ctx); err != nil {
		return fmt.Errorf("stack: prepare %s: %w", s.name(), err)
	}
	var err error
	for range portAttempts {
		if err = s.program.addresses(); err != nil {
			return fmt.Errorf("stack: find a port for %s: %w", s.name(), err)
		}
		if err = s.launch(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, errEndedEarly) {
			return err
		}
	}
	return err
}

// start is every later start, on the old port. A server that ends at once is tried
// again until the time is over: after a kill -9 Postgres refuses until the last of
// its old processes has noticed.
func (s *server) start(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.retired {
		return fmt.Errorf("stack: start %s: the stack is closed", s.name())
	}
	ctx, cancel := context.WithTimeout(ctx, s.startTimeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	if err := s.ensureDown(ctx); err != nil {
		return err
	}
	if err := s.program.prepare(ctx); err != nil {
		return fmt.Errorf("stack: prepare %s: %w", s.name(), err)
	}
	for {
		err := s.launch(ctx)
		if !errors.Is(err, errEndedEarly) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

// ensureDown tells a server that is up from one that was killed a moment ago and
// has not been taken away yet.
func (s *server) ensureDown(ctx context.Context) error {
	c := s.current()
	if c == nil {
		return nil
	}
	if err := s.ask(ctx, c); err == nil {
		return fmt.Errorf("stack: start %s: %w (process %d): kill it first, or leave it", s.name(), ErrRunning, c.pid())
	}
	if !c.goneWithin(agonyTimeout) {
		return fmt.Errorf("stack: start %s: process %d is there but does not answer: continue it (kill -CONT %[2]d) or kill it (kill -9 %[2]d), then start it again", s.name(), c.pid())
	}
	return nil
}

var errEndedEarly = errors.New("ended before it answered")

// launch runs the server once and waits until it answers.
func (s *server) launch(ctx context.Context) error {
	c, err := s.spawn()
	if err != nil {
		return err
	}
	if err := s.awaitAnswer(ctx, c); err != nil {
		c.destroy()
		return fmt.Errorf("stack: start %s: %w; end of %s:\n%s", s.name(), err, c.logPath, tail(c.logPath))
	}
	s.log.Info("server answers", "server", s.name(), "pid", c.pid(), "address", s.program.address())
	return nil
}

func (s *server) spawn() (*child, error) {
	cmd := s.program.command()
	c, err := startChild(s.spawner, cmd, childFiles{
		log: filepath.Join(s.dir, s.name()+".log"),
		pid: filepath.Join(s.dir, s.name()+".pid"),
	}, s.program.stopSignal())
	if err != nil {
		return nil, fmt.Errorf("stack: start %s (%s): %w", s.name(), cmd.Path, err)
	}
	s.guard.watch(c.pid(), s.program.stopSignal(), c.pidPath)
	s.mu.Lock()
	s.child = c
	s.mu.Unlock()
	go func() {
		state := c.reap()
		s.guard.forget(c.pid())
		if !c.ending.Load() {
			s.log.Warn("server ended by itself or was killed", "server", s.name(), "pid", c.pid(), "state", state)
		}
		close(c.gone)
	}()
	return c, nil
}

func (s *server) awaitAnswer(ctx context.Context, c *child) error {
	var last error
	for {
		if last = s.ask(ctx, c); last == nil {
			return nil
		}
		select {
		case <-c.gone:
			return errEndedEarly
		case <-ctx.Done():
			return fmt.Errorf("no answer on %s within %s (%w); last: %w", s.program.address(), s.startTimeout, ctx.Err(), last)
		case <-time.After(probeEvery):
		}
	}
}

// ask opens a plain connection first: client libraries retry and log what is
// expected here, that nobody listens yet.
func (s *server) ask(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.program.address())
	if err != nil {
		return err
	}
	_ = conn.Close()
	if err := s.program.probe(ctx, c.pid()); err != nil {
		return err
	}
	if c.dead() {
		return errEndedEarly
	}
	return nil
}

// tail is the end of a log file, for an error message.
func tail(path string) string {
	const most = 2000
	text, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}
