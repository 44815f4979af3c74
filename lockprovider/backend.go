package lockprovider

import (
	"context"
	"errors"
	"time"
)

// A backend is the whole of what a store has to do. Every call is idempotent in the
// attempt's nonce and honours ctx. Errors other than the ones named here mean "the
// store failed", with an unknown outcome.
type backend interface {
	name() string
	// roundTTL is the time to live that the store can really grant.
	roundTTL(d time.Duration) time.Duration
	// shared says whether holds share sessions (etcd: one lease for all) or each
	// hold is kept alive alone (Redis).
	shared() bool
	// batch is how many sessions one renewal call takes.
	batch() int

	// openSession and endSession are called only if shared. endSession frees all
	// that the session holds.
	openSession(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error)
	endSession(ctx context.Context, s *session) error

	// try makes one atomic step that leaves nothing behind on *HeldError.
	try(ctx context.Context, a *attempt) (grant, error)
	// tryHere is the first try of an attempt, to be queued or not, by a caller who cannot
	// leave meanwhile: it takes at most stayLimit. errNotHere: nothing was done.
	tryHere(a *attempt, queue bool) (grant, error)
	// wait blocks until the attempt is granted. It may leave a queued key behind.
	wait(ctx context.Context, a *attempt) (grant, error)
	// undo removes every trace of an attempt, also one that arrives later.
	undo(ctx context.Context, a *attempt) error
	// renew answers for each session in turn; err means that nothing is known.
	renew(ctx context.Context, s []*session) ([]renewal, error)
	// release gives one hold back if it is still this hold; false: it was not.
	release(ctx context.Context, h *hold) (bool, error)
	// check tells whether the hold still stands (0) or why not.
	check(ctx context.Context, h *hold) (Reason, error)
	list(ctx context.Context, prefix string, exact bool) ([]Info, error)
	force(ctx context.Context, name string, token uint64) error

	// listen starts what pushes losses to the core, on goroutines that end with ctx.
	listen(ctx context.Context)
	// close returns when the backend's goroutines have ended; it closes the store
	// connection if that belongs to the provider.
	close() error
}

// errSessionGone: the store no longer knows the session.
var errSessionGone = errors.New("session is gone")

// errNotHere: the caller should not make this call himself.
var errNotHere = errors.New("not on the goroutine of the caller")

// errAborted: the attempt was undone before it arrived.
var errAborted = errors.New("attempt was undone")

type grant struct {
	token uint64
	sent  Instant // before the call that won was sent; zero if shared
}

type renewal struct {
	granted time.Duration
	lost    Reason // 0: renewed
}

// definite tells whether err says that the attempt left nothing in the store.
func definite(err error) bool {
	return errors.Is(err, ErrHeld) || errors.Is(err, ErrForeignKey) || errors.Is(err, errSessionGone) || errors.Is(err, errAborted)
}
