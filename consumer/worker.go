package consumer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"seckill/admission"
	"seckill/lockprovider"
)

// restartPause is the longest pause before a partition is tried again after it was
// lost or could not be taken.
const restartPause = 500 * time.Millisecond

// Worker settles the partitions of the log that are its share, each under a lease
// and a term. Set all fields before Run; Instance is its name among the workers.
//
// The lease picks who tries; the term, which the ledger gives and every settlement
// checks, decides who may write.
type Worker struct {
	Instance    string
	Ledger      *Ledger
	Log         *admission.Log
	Gate        *admission.Gate
	Dead        *DeadLetters
	Leases      *lockprovider.Provider
	AckWait     time.Duration // of a delivery, before the log delivers it again
	Pace        *Pace         // bounds how many orders all partitions of the worker settle; nil: no bound
	Metrics     *Metrics
	Tracing     *admission.Tracing // nil: none
	Logger      *slog.Logger
	SharePeriod time.Duration // how often the share is looked at; 0: 250 ms
}

// Run settles until ctx ends, finishes the batches in hand, gives the partitions
// back and returns when every goroutine of the worker has ended.
func (w *Worker) Run(ctx context.Context) error {
	share := newShare(w)
	return share.run(ctx)
}

// settlePartition settles one partition again and again until ctx ends. Whatever
// ends a turn (lease lost, fenced, a store away) only leads to the next turn.
func (w *Worker) settlePartition(ctx context.Context, partition int) {
	fencedInARow := 0
	for ctx.Err() == nil {
		err := w.turn(ctx, partition)
		if ctx.Err() != nil {
			return
		}
		longest := restartPause
		if errors.Is(err, ErrFenced) {
			w.Metrics.fenced.Inc()
			// Who is fenced again and again has company that the leases do not
			// keep away: making room lets one of them get something done.
			longest <<= min(fencedInARow, 4)
			fencedInARow++
		} else {
			fencedInARow = 0
		}
		w.Logger.Warn("partition given up; it is taken again", "partition", partition, "error", err)
		pause(ctx, time.Duration(rand.Int64N(int64(longest))))
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// turn is one hold on a partition: term read, lease acquired, term raised,
// consumer set to the ledger's position, then batch after batch.
func (w *Worker) turn(ctx context.Context, partition int) error {
	before, err := w.Ledger.TermOf(ctx, partition)
	if err != nil {
		return err
	}
	lease, err := w.Leases.Acquire(ctx, PartitionLock(partition), lockprovider.WithNote(w.Instance), lockprovider.WithPurpose("partition"))
	if err != nil {
		return err
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = lease.Release(release) // goes on in the background, or expires
	}()
	term, position, err := w.Ledger.Take(ctx, partition, before, w.Instance)
	if err != nil {
		return err
	}
	s := &settler{Worker: w, lease: lease, term: term}
	if err := s.bind(ctx, position); err != nil {
		return err
	}
	w.Logger.Info("partition taken", "partition", partition, "term", term.Number, "token", lease.Token(), "after", position.Seq)
	// The lease's context ends with ctx too, which only ends the taking: the
	// batch in hand is finished under a context of its own.
	hold, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(lease.Context(), func() {
		if ctx.Err() == nil {
			cancel(context.Cause(lease.Context()))
		}
	})()
	return s.run(ctx, hold)
}

// share keeps a worker at its share of the partitions: members in order of their
// names get every n-th one.
type share struct {
	*Worker
	running map[int]context.CancelFunc
	work    sync.WaitGroup
}

func newShare(w *Worker) *share {
	return &share{Worker: w, running: map[int]context.CancelFunc{}}
}

func (s *share) run(ctx context.Context) error {
	// Membership ends first, so that the others move in while the last batches
	// are finished and the leases given back.
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(func() { s.beMember(member) })
	period := s.SharePeriod
	if period == 0 {
		period = 250 * time.Millisecond
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.look(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	leave()
	for _, stop := range s.running {
		stop()
	}
	s.work.Wait()
	return context.Cause(ctx)
}

// beMember holds member/<instance> until ctx ends.
func (s *share) beMember(ctx context.Context) {
	for ctx.Err() == nil {
		err := lockprovider.Do(ctx, s.Leases, memberPrefix+s.Instance, func(ctx context.Context, _ *lockprovider.Lease) error {
			<-ctx.Done()
			return nil
		}, lockprovider.WithNote(s.Instance), lockprovider.WithPurpose("member"))
		if ctx.Err() == nil {
			s.Logger.Warn("membership lost; it is taken again", "instance", s.Instance, "error", err)
			pause(ctx, restartPause)
		}
	}
}

// look compares the share with what runs. When the lock store does not answer, all
// stays as it is: leases that cannot be renewed end by themselves.
func (s *share) look(ctx context.Context) {
	look, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	members, err := s.Leases.List(look, memberPrefix)
	if err != nil {
		return
	}
	mine := shareOf(members, s.Instance, s.Log.Partitions())
	for partition, stop := range s.running {
		if !mine[partition] {
			stop()
			delete(s.running, partition)
		}
	}
	for partition := range mine {
		if s.running[partition] == nil {
			ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
			s.running[partition] = cancel
			s.work.Go(func() { s.settlePartition(ctx, partition) })
		}
	}
}

// shareOf is the partitions of a member. Everybody computes the same from the same
// list; while lists differ, the leases keep the peace.
func shareOf(members []lockprovider.Info, instance string, partitions int) map[int]bool {
	mine := map[int]bool{}
	for rank, m := range members { // ordered by name
		if m.Name != memberPrefix+instance {
			continue
		}
		for p := rank; p < partitions; p += len(members) {
			mine[p] = true
		}
	}
	return mine
}
