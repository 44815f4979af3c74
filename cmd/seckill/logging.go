package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// logBurst is how many warnings, or errors, with the same message are written in one
	// logWindow. The others are counted, and their number is told when it is over.
	logBurst  = 20
	logWindow = 10 * time.Second
	// logMessages bounds how many messages are counted apart; there are fewer in the
	// code, and what is beyond them is written without a limit.
	logMessages = 1000
)

// newLogger writes one JSON object a line, and of many equal warnings or errors only the
// first. Call close at the end; it tells what was suppressed until then.
func newLogger(to io.Writer, r prometheus.Registerer) (logger *slog.Logger, close func()) {
	s := newSampler(slog.NewJSONHandler(to, nil), logWindow)
	r.MustRegister(s.suppressed)
	return slog.New(s), s.close
}

// logSampler is a handler that suppresses floods: a store that is away must not cost a
// line for each of a thousand batches a second. Safe for concurrent use.
type logSampler struct {
	slog.Handler
	*logFloods
}

// logFloods is what the handlers of a logger share.
type logFloods struct {
	window     time.Duration
	suppressed prometheus.Counter

	mu     sync.Mutex
	floods map[logLine]*logFlood
	closed bool
}

// logLine is what makes two lines equal.
type logLine struct {
	level   slog.Level
	message string
}

// logFlood counts the equal lines of one window.
type logFlood struct {
	written, suppressed int
	end                 *time.Timer
}

func newSampler(to slog.Handler, window time.Duration) *logSampler {
	return &logSampler{to, &logFloods{
		window: window, floods: map[logLine]*logFlood{},
		suppressed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "seckill_log_suppressed_total", Help: "Lines of the log that were not written, because many like them had been.",
		}),
	}}
}

// Handle implements slog.Handler.
func (s *logSampler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !s.admit(logLine{r.Level, r.Message}) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *logSampler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logSampler{s.Handler.WithAttrs(attrs), s.logFloods}
}

// WithGroup implements slog.Handler.
func (s *logSampler) WithGroup(name string) slog.Handler {
	return &logSampler{s.Handler.WithGroup(name), s.logFloods}
}

// admit decides whether a line is written.
func (s *logSampler) admit(line logLine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.floods[line]
	if f == nil {
		if s.closed || len(s.floods) >= logMessages {
			return true
		}
		f = &logFlood{}
		f.end = time.AfterFunc(s.window, func() { s.over(line) })
		s.floods[line] = f
	}
	if f.written < logBurst {
		f.written++
		return true
	}
	f.suppressed++
	s.suppressed.Inc()
	return false
}

// over ends the window of a line and tells what was suppressed in it.
func (s *logSampler) over(line logLine) {
	s.mu.Lock()
	f := s.floods[line]
	delete(s.floods, line)
	s.mu.Unlock()
	if f == nil || f.suppressed == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), line.level, "log lines suppressed", 0)
	r.AddAttrs(slog.String("line", line.message), slog.Int("suppressed", f.suppressed))
	_ = s.Handler.Handle(context.Background(), r) // there is nowhere else to say so
}

// close ends all windows.
func (s *logSampler) close() {
	s.mu.Lock()
	s.closed = true
	var open []logLine
	for line, f := range s.floods {
		f.end.Stop()
		open = append(open, line)
	}
	s.mu.Unlock()
	for _, line := range open {
		s.over(line)
	}
}

// serverErrors is the log of an HTTP server, whose lines differ by the peer: here they
// are one kind of line.
func serverErrors(logger *slog.Logger) *log.Logger {
	return log.New(serverLog{logger}, "", 0)
}

type serverLog struct{ logger *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.logger.Warn("a connection failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}
