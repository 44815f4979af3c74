package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/lockprovider"
)

const (
	// A replay works in chunks of about so many orders, and commits its position at
	// least every so many messages. Both bound its memory.
	replayOrders   = 2048
	replayMessages = 20_000
	// replayPatience is how long a replay waits for workers that settle nothing.
	replayPatience = 30 * time.Second
)

// Errors of a replay that was stopped; it can be resumed.
var (
	ErrUndecided  = errors.New("orders that were appended again are not decided: is a worker running?")
	ErrAnotherLog = errors.New("the stream was made anew since this replay began, and its numbers mean other messages: begin a new one")
)

// Replay passes orders of the log, or of the dead letters, through settlement again.
// That has no effect on an order that is decided; one that has no row gets its
// decision, and one that is held if it is read from the dead letters. Copies keep the
// epoch of their reservation.
//
// It reads page by page, up to what was the end when it began, beside the workers'
// consumers. Every chunk is reported before the position is committed: after a crash
// the lines of one chunk come twice, and the counts are right. Set all fields that
// have no zero meaning; a Replay runs once.
type Replay struct {
	Ledger *Ledger
	Gate   *admission.Gate
	Log    *admission.Log
	Dead   *DeadLetters
	Leases *lockprovider.Provider // of mode apply, else unused
	Logger *slog.Logger

	Rate     int           // most orders a second; 0: no limit
	Patience time.Duration // for workers that settle nothing; 0: 30 s

	Begun    func(ReplayRun)          // told before the first order; nil: nobody is
	Report   func([]ReplayLine) error // told how each order ended; nil: nobody is
	Progress func(read, of uint64)    // told how many messages are read; nil: nobody is
}

// ReplayLine says how one order ended: settled (it had no decision before), already,
// rejected, dead (held for an operator) or unknown (not decided within the patience).
type ReplayLine struct {
	OrderID string `json:"order_id"`
	Seq     uint64 `json:"seq"`
	Result  string `json:"result"`
	Reason  string `json:"reason,omitempty"`
}

// ReplaySummary is the end of a replay.
type ReplaySummary struct {
	Run     string `json:"run"`
	FromSeq uint64 `json:"from_seq"`
	ToSeq   uint64 `json:"to_seq"`
	ReplayCounts
	// Undecided, of a plan: selected orders without a row.
	Undecided uint64 `json:"undecided,omitempty"`
}

// Plan counts what a replay would find, and changes nothing.
func (r *Replay) Plan(ctx context.Context, s Selection) (ReplaySummary, error) {
	run, err := r.prepare(ctx, s)
	if err != nil {
		return ReplaySummary{}, fmt.Errorf("plan a replay: %w", err)
	}
	p := &replaying{Replay: r, run: run, planned: true}
	if err := p.read(ctx); err != nil {
		return p.summary(), fmt.Errorf("plan a replay: %w", err)
	}
	return p.summary(), nil
}

// Start begins a replay and runs it to its end. The summary is right after an error
// too, once the replay has begun.
func (r *Replay) Start(ctx context.Context, s Selection) (ReplaySummary, error) {
	run, err := r.prepare(ctx, s)
	if err != nil {
		return ReplaySummary{}, fmt.Errorf("begin a replay: %w", err)
	}
	return r.work(ctx, run, func(p *replaying) error { return r.Ledger.beginRun(ctx, &p.run) })
}

// Resume goes on with a replay where it stopped. Of one that is finished it returns
// the summary.
func (r *Replay) Resume(ctx context.Context, id string) (ReplaySummary, error) {
	run, err := r.Ledger.Run(ctx, id)
	if err != nil {
		return ReplaySummary{}, err
	}
	if run.Finished {
		return (&replaying{run: run}).summary(), nil
	}
	b, err := r.bounds(ctx, run.Selection.Source)
	if err == nil && !b.created.Equal(run.Log) {
		err = ErrAnotherLog
	}
	if err != nil {
		return ReplaySummary{}, fmt.Errorf("resume replay %s: %w", id, err)
	}
	return r.work(ctx, run, func(*replaying) error { return nil })
}

// prepare fixes what a replay will read: from the first selected message to the last
// one that there is now.
func (r *Replay) prepare(ctx context.Context, s Selection) (ReplayRun, error) {
	if err := s.Check(r.Log.Partitions()); err != nil {
		return ReplayRun{}, err
	}
	b, err := r.bounds(ctx, s.Source)
	run := ReplayRun{Selection: s, Log: b.created, From: 1, To: b.last, Started: farFuture}
	if s.Source == ReplayOrders {
		run.From = max(s.FromSeq, 1)
		if s.ToSeq != 0 {
			run.To = min(b.last, s.ToSeq)
		}
	}
	run.Position = run.From - 1
	return run, err
}

// farFuture makes every decision one from before; a plan decides nothing.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// bounds are of the stream that is to be read.
type bounds struct {
	created     time.Time
	first, last uint64
}

func (r *Replay) bounds(ctx context.Context, source string) (bounds, error) {
	name := r.Log.StreamName()
	if source == ReplayDead {
		name = r.Dead.StreamName()
	}
	stream, err := r.Log.JetStream().Stream(ctx, name)
	if source == ReplayDead && errors.Is(err, jetstream.ErrStreamNotFound) {
		return bounds{}, nil // no worker has started yet: there are no dead letters
	}
	if err != nil {
		return bounds{}, fmt.Errorf("look stream %s up: %w", name, err)
	}
	info := stream.CachedInfo()
	return bounds{info.Created.UTC().Truncate(time.Microsecond), info.State.FirstSeq, info.State.LastSeq}, nil
}

func (r *Replay) work(ctx context.Context, run ReplayRun, begin func(*replaying) error) (ReplaySummary, error) {
	p := &replaying{Replay: r, run: run}
	if run.Selection.Mode == ReplayApply {
		release, err := p.hold(ctx)
		if err != nil {
			return ReplaySummary{}, fmt.Errorf("replay by apply: nothing was changed: %w", err)
		}
		defer release()
	}
	if err := begin(p); err != nil {
		return ReplaySummary{}, err
	}
	if r.Begun != nil {
		r.Begun(p.run)
	}
	if err := p.read(ctx); err != nil {
		return p.summary(), fmt.Errorf("replay %s is stopped after message %d of %d: %w", p.run.ID, p.run.Position, p.run.To, err)
	}
	return p.summary(), nil
}
