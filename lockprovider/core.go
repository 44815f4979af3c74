package lockprovider

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The core does everything that is not a store call: who holds what, when to renew,
// when a lease is over, what must be undone.
type core struct {
	cfg     Config
	backend backend
	clock   Clock
	log     *slog.Logger
	metrics *metrics
	off     holes
	origin  string // makes nonces of this provider unlike all others
	serial  atomic.Uint64

	examining atomic.Bool // suspectAll is under way
	errands   chan func() // to a resting goroutine, see run
	resting   atomic.Int32

	ctx     context.Context // ends when the provider has stopped
	stop    context.CancelFunc
	closing chan struct{} // closed when Close begins
	closed  chan struct{} // closed when Close is done
	wg      sync.WaitGroup

	mu        sync.Mutex
	isClosing bool
	closeErr  error
	jobs      int           // attempts, releases and undos under way
	idle      chan struct{} // closed when jobs is 0 while closing
	holds     map[string]*hold
	sessions  map[time.Duration]*session // shared ones, by TTL
	opening   map[time.Duration]*opening
	renewals  agenda
	deadlines agenda
	wake      chan struct{}
	napEnd    time.Duration // when the scheduler looks next, by the monotonic clock
	offset    time.Duration // wall minus monotonic clock at the last look
	lastToken map[string]uint64
	spares    spares
}

const (
	maxName        = 1024
	maxNote        = 1024
	minCallLimit   = 250 * time.Millisecond
	maxCallLimit   = 5 * time.Second
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = time.Second
	remembered     = 4096 // names whose last token is kept, to notice a token that goes back
)

var namespacePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,62}$`)

// fill replaces zero values by defaults and refuses what cannot work.
func (cfg Config) fill() (Config, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = "seckill"
	}
	if !namespacePattern.MatchString(cfg.Namespace) {
		return cfg, fmt.Errorf("lockprovider: namespace %q: want a letter, then at most 62 letters, digits, '_', '.' or '-'", cfg.Namespace)
	}
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.Instance == "" {
		host, _ := os.Hostname()
		cfg.Instance = host + "-" + strconv.Itoa(os.Getpid())
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = newSystemClock()
	}
	return cfg, checkTimes(cfg.TTL, cfg.Guard)
}

// checkTimes holds the relations between TTL and guard, so that a lease is renewed
// three times before it can be lost.
func checkTimes(ttl, guard time.Duration) error {
	if ttl < MinTTL {
		return fmt.Errorf("lockprovider: TTL %v is below the minimum of %v", ttl, MinTTL)
	}
	if guard < 0 || guard > ttl/3 {
		return fmt.Errorf("lockprovider: guard %v: want 0 to a third of the TTL %v", guard, ttl)
	}
	return nil
}

// newProvider starts a provider over a backend made for the same, filled configuration.
func newProvider(cfg Config, b backend, hook func(*core)) (*Provider, error) {
	m, err := newMetrics(cfg.Registerer, b.name())
	if err != nil {
		return nil, err
	}
	var origin [8]byte
	if _, err := rand.Read(origin[:]); err != nil {
		return nil, fmt.Errorf("lockprovider: random number for owner names: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &core{
		cfg: cfg, backend: b, clock: cfg.Clock, metrics: m, off: cfg.holes,
		log:    cfg.Logger.With("component", "lockprovider", "backend", b.name()),
		origin: hex.EncodeToString(origin[:]),
		ctx:    ctx, stop: stop, closing: make(chan struct{}), closed: make(chan struct{}), idle: make(chan struct{}),
		holds: map[string]*hold{}, sessions: map[time.Duration]*session{}, opening: map[time.Duration]*opening{},
		wake: make(chan struct{}, 1), errands: make(chan func()), lastToken: map[string]uint64{},
	}
	now := c.clock.Now()
	c.offset = now.Wall - now.Mono
	hook(c)
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		c.schedule()
	}()
	return &Provider{core: c}, nil
}

// callLimit bounds one store call of an acquisition, a release or an undo.
func callLimit(ttl time.Duration) time.Duration {
	return min(max(ttl/3, minCallLimit), maxCallLimit)
}

// backoff is the pause after the n-th failure in a row (from 0): 50 ms, doubling to
// 1 s, give or take a fifth.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n, 10), longestBackoff)
	return d*4/5 + time.Duration(mathrand.Int64N(int64(d)*2/5))
}

// sleep waits for d, or until ctx ends (false).
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin accounts for a piece of work that Close waits for. It is refused once the
// provider has stopped; work that gives things back may still begin while closing.
func (c *core) begin(givesBack bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || (c.isClosing && !givesBack) {
		return false
	}
	c.jobs++
	c.wg.Add(1)
	return true
}

func (c *core) end() {
	c.mu.Lock()
	c.jobs--
	if c.jobs == 0 && c.isClosing {
		select {
		case <-c.idle:
		default:
			close(c.idle)
		}
	}
	c.mu.Unlock()
	c.wg.Done()
}

// entered makes the scheduler look again if it would sleep past its next entry. Most
// new entries are due later than that, and then nobody is woken.
func (c *core) entered() {
	c.mu.Lock()
	late := c.sleepsPast()
	c.mu.Unlock()
	if late {
		c.poke()
	}
}

// poke makes the scheduler look at its agendas again.
func (c *core) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *core) nonce() string {
	if c.off.nonce {
		return c.origin + "-0"
	}
	return c.origin + "-" + strconv.FormatUint(c.serial.Add(1), 36)
}

// noteToken watches that tokens of a name only rise, as far as this process can see.
func (c *core) noteToken(name string, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.lastToken[name]; token <= last || token > math.MaxInt64 {
		c.metrics.tokenRegression.Inc()
		c.log.Error("token did not rise; whoever fences with it must refuse this holder", "name", name, "token", token, "last", last)
	}
	if len(c.lastToken) >= remembered {
		clear(c.lastToken)
	}
	c.lastToken[name] = token
}

// unavailable wraps a store failure so that the caller learns what was being done.
func unavailable(doing, name string, err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrForeignKey) {
		return err
	}
	return fmt.Errorf("lockprovider: %s %q: %w; safe to try again: %w", doing, name, ErrUnavailable, err)
}
