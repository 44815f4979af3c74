package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Service. Zero values take the defaults named.
type Config struct {
	QueueLimit   int           // waiting requests per activity; default 10,000
	BacklogLimit int           // undecided orders per activity; default 1,000,000
	Breaker      BreakerConfig // of Redis and NATS; default: never open
	Metrics      *Metrics      // default: not registered anywhere
	Tracing      *Tracing      // default: none
	Logger       *slog.Logger  // default: slog.Default()
}

// Service answers buyers. It takes an order from the request to the log: asks the
// gate, appends what was admitted, answers when it is on disk. Safe for concurrent
// use.
type Service struct {
	gate    *Gate
	log     *Log
	ledger  Ledger
	catalog *catalog
	acked   acked
	waiting *waiting
	hashes  atomic.Int64 // buyers remembered by all lanes; see mostRemembered
	config  Config
	metrics *Metrics
	tracing *Tracing
	logger  *slog.Logger

	gateBreaker, logBreaker *breaker

	life context.Context // ends when the service is closed for good
	end  context.CancelFunc
	open context.Context // ends when closing begins
	shut context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	lanes  map[string]*lane
	closed bool
}

// NewService returns a service on its three stores. Close it.
func NewService(gate *Gate, log *Log, ledger Ledger, c Config) *Service {
	if c.QueueLimit == 0 {
		c.QueueLimit = 10_000
	}
	if c.BacklogLimit == 0 {
		c.BacklogLimit = 1_000_000
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	s := &Service{
		gate: gate, log: log, ledger: ledger, catalog: newCatalog(ledger, gate),
		config: c, metrics: c.Metrics, tracing: c.Tracing, logger: c.Logger, lanes: map[string]*lane{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.open, s.shut = context.WithCancel(s.life)
	s.waiting = newWaiting(s)
	s.startBreakers()
	return s
}

// Close turns new requests away, lets those in hand finish until ctx ends, and
// returns when no goroutine of the service is left.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.shut()
	s.waiting.hurry()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	defer s.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.end()
		<-done
		return fmt.Errorf("close admission: requests in hand were cut off: %w", ctx.Err())
	}
}

// Changed tells the service that an operator has changed an activity through this
// process, so that what buyers see next is not the picture of before.
func (s *Service) Changed(activity string) { s.catalog.forget(activity) }

// Ask is what a buyer asks for. Quantity, names and key have been checked.
type Ask struct {
	Activity, User, SKU, Key string
	Quantity                 int64
}

// Placed is the answer to an Ask that got an order.
type Placed struct {
	Order
	Activity string
	Status   Status
	Repeat   bool // the order had been there before
}

// Place answers a buyer. The order of a nil error is in the log, on disk. Any
// error is a *Problem; CodeUnknown means that the order may or may not be
// accepted, every other one that nothing was changed.
func (s *Service) Place(ctx context.Context, a Ask) (Placed, error) {
	began := time.Now()
	placed, err := s.placeAs(ctx, a, NewID())
	s.metrics.admitted(placed, err, time.Since(began))
	return placed, err
}

// remembered is "sold out" if this node knows that nothing else can be answered, else
// nil.
func (s *Service) remembered(a Ask) *Problem {
	began := time.Now()
	s.mu.Lock()
	l := s.lanes[a.Activity]
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	p := l.memory.refuses(a)
	if p != nil {
		s.metrics.admitted(Placed{}, p, time.Since(began))
	}
	return p
}

// placeAs places an order under an id, which is the order's for good: the gate knows
// it again.
func (s *Service) placeAs(ctx context.Context, a Ask, id string) (Placed, error) {
	p, err := s.catalog.get(ctx, a.Activity, -1)
	if err == nil && p.activity.State == Draft {
		// It may have been opened a moment ago. However many ask, one reads.
		p, err = s.catalog.get(ctx, a.Activity, 0)
	}
	if err != nil {
		return Placed{}, AsProblem(err)
	}
	if p.activity.State == Draft {
		return Placed{}, notStarted(p.activity)
	}
	l, err := s.laneOf(a.Activity)
	if err != nil {
		return Placed{}, err
	}
	w := &waiter{
		order: Order{ID: id, User: a.User, SKU: a.SKU, Quantity: a.Quantity, Key: a.Key},
		reply: make(chan reply, 1), ask: s.tracing.of(ctx),
	}
	if err := s.sick(); err != nil {
		return Placed{}, err
	}
	if err := l.push(w); err != nil {
		return Placed{}, err
	}
	select {
	case r := <-w.reply:
		if r.err != nil {
			return Placed{}, r.err
		}
		return s.answered(ctx, a, r)
	case <-ctx.Done():
		if w.state.CompareAndSwap(waiterQueued, waiterGone) {
			return Placed{}, NewProblem(CodeOverloaded, "The request waited too long for its turn; ask again in a moment.").Because(ctx.Err())
		}
		return Placed{}, unknownOutcome("").Because(ctx.Err())
	}
}

// refusedBy is the answer when the gate was not ready: a closed sale needs none.
func refusedBy(a Activity, notReady error) *Problem {
	if a.State == Closed {
		return NewProblem(CodeEnded, "The sale %s is closed.", a.ID)
	}
	return AsProblem(notReady)
}

func notStarted(a Activity) *Problem {
	p := NewProblem(CodeNotStarted, "The sale %s has not started.", a.ID)
	if !a.StartsAt.IsZero() {
		p.Members = map[string]any{"starts_at": formatTime(a.StartsAt)}
		p.RetryAfter = max(time.Until(a.StartsAt), time.Second)
	}
	return p
}

func unknownOutcome(location string) *Problem {
	next := "Ask again with the same Idempotency-Key to learn the truth."
	if location != "" {
		next = "Read the order, or ask again with the same Idempotency-Key, to learn the truth."
	}
	p := NewProblem(CodeUnknown, "The order may or may not be accepted. %s", next)
	p.Location = location
	return p
}

func orderPath(activity, id string) string {
	return "/v1/activities/" + activity + "/orders/" + id
}

// answered turns the reservation that a lane returned into the buyer's answer.
func (s *Service) answered(ctx context.Context, a Ask, r reply) (Placed, error) {
	got := r.reservation
	placed := Placed{Order: got.Order, Activity: a.Activity, Status: got.Status(), Repeat: r.repeat}
	if a.Key != "" && got.Key == a.Key && (got.SKU != a.SKU || got.Quantity != a.Quantity) {
		p := NewProblem(CodeMismatch, "The Idempotency-Key was used for %d of %s before; use a new key for another order.", got.Quantity, got.SKU)
		return Placed{}, p
	}
	if got.State != Released {
		return placed, nil
	}
	// Only the ledger knows how a released order ended.
	rows, err := s.ledger.Orders(ctx, []string{got.ID})
	if err != nil {
		return Placed{}, AsProblem(fmt.Errorf("read how order %s ended: %w", got.ID, err))
	}
	row, ok := rows[got.ID]
	if !ok {
		return Placed{}, AsProblem(fmt.Errorf("order %s was released without a row", got.ID))
	}
	placed.Status = row.Status
	return placed, nil
}

// laneOf is the line of an activity, unless the node is stopping.
func (s *Service) laneOf(activity string) (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, NewProblem(CodeOverloaded, "This node is stopping; ask again.")
	}
	l := s.lanes[activity]
	if l == nil {
		l = &lane{service: s, activity: activity, slots: make(chan struct{}, batchesInFlight)}
		s.lanes[activity] = l
	}
	return l, nil
}

// Find reads one order of a buyer: the ledger's row, else the gate's reservation.
func (s *Service) Find(ctx context.Context, activity, user, id string) (Row, error) {
	row, err := s.findRow(ctx, activity, user, id)
	if !errors.Is(err, ErrNoOrder) {
		return row, err
	}
	asked := time.Now()
	r, found, err := s.gate.Find(ctx, activity, id)
	if err != nil {
		return Row{}, AsProblem(err)
	}
	if found && r.User == user && r.State == Pending {
		return s.undecided(ctx, activity, r)
	}
	// Perhaps decided between the two looks.
	if row, err := s.findRow(ctx, activity, user, id); !errors.Is(err, ErrNoOrder) {
		return row, err
	}
	// Only a gate that was there when it was asked knows that there is no such order.
	p, err := s.catalog.since(ctx, activity, asked)
	if err != nil {
		return Row{}, AsProblem(err)
	}
	a := p.activity
	if a.State != Draft && a.State != Closed && (p.gateErr != nil || !p.gate.Ready(a.Epoch)) {
		return Row{}, AsProblem(&NotReadyError{Activity: activity})
	}
	return Row{}, AsProblem(fmt.Errorf("order %s: %w", id, ErrNoOrder))
}

func (s *Service) findRow(ctx context.Context, activity, user, id string) (Row, error) {
	rows, err := s.ledger.Orders(ctx, []string{id})
	if err != nil {
		return Row{}, AsProblem(fmt.Errorf("read order %s: %w", id, err))
	}
	row, ok := rows[id]
	if !ok || row.Activity != activity || row.User != user {
		return Row{}, AsProblem(fmt.Errorf("order %s: %w", id, ErrNoOrder))
	}
	return row, nil
}

// undecided shows a reservation as the accepted order that it will be.
func (s *Service) undecided(ctx context.Context, activity string, r Reservation) (Row, error) {
	p, err := s.catalog.get(ctx, activity, -1)
	if err != nil {
		return Row{}, AsProblem(err)
	}
	sku, _ := p.activity.sku(r.SKU)
	return Row{
		ID: r.ID, Activity: activity, SKU: r.SKU, User: r.User, Key: r.Key, Quantity: r.Quantity,
		Amount: r.Quantity * sku.Price, Status: Accepted, CreatedAt: r.At,
	}, nil
}
