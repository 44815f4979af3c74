package stack

import (
	"fmt"
	"syscall"
)

func (s *server) stop() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.halt()
}

// retire is the last stop; no start comes after it.
func (s *server) retire() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.retired = true
	return s.halt()
}

func (s *server) halt() error {
	c := s.current()
	if c == nil {
		return nil
	}
	c.ending.Store(true)
	c.signalFamily(syscall.SIGCONT) // a paused process would not notice the rest
	c.signal(s.program.stopSignal())
	if c.goneWithin(s.stopTimeout) {
		return nil
	}
	s.log.Warn("server did not end in time, killing it", "server", s.name(), "pid", c.pid(), "waited", s.stopTimeout)
	return c.destroy()
}

func (s *server) kill() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.living(func(c *child) error { return c.destroy() })
}

func (s *server) pause() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.living((*child).pause)
}

func (s *server) resume() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.living(func(c *child) error { c.signalFamily(syscall.SIGCONT); return nil })
}

func (s *server) living(act func(*child) error) error {
	c := s.current()
	if c == nil {
		return fmt.Errorf("stack: %s: %w: start it first", s.name(), ErrNotRunning)
	}
	return act(c)
}
