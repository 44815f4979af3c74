package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"seckill/admission"
)

// Bounds of an audit.
const (
	// mostViolations is the longest list of violations; the rest is counted.
	mostViolations = 1000
	// auditChunk is how many orders are compared with the ledger at a time.
	auditChunk = 5000
	// restPoll is how often an audit that waits looks whether all is at rest.
	restPoll = 100 * time.Millisecond
)

// ErrNotMigrated says that the ledger has no tables of this release.
var ErrNotMigrated = errors.New("the ledger's schema is not that of this release; run: seckill migrate")

// Audit checks the books: it reads ledger, gates and log themselves, page by page,
// and changes nothing, the workers' consumers included. Memory is bounded whatever
// the size of the sale. Set all fields that have no zero meaning; an Audit may run
// any number of times, one at a time.
type Audit struct {
	Ledger *Ledger
	Gate   *admission.Gate
	Log    *admission.Log
	Dead   *DeadLetters

	Activity string        // empty: all
	Wait     time.Duration // how long to wait until everything is at rest; 0: not at all
	// Progress is told how many of the log's messages are read; nil: nobody is.
	Progress func(read, of uint64)
}

// Run audits. When there is no rest within Wait it judges what can be judged in
// motion, and says so in the report. A broken law is no error.
//
// The three stores have no common moment. The gates are marked first, then the
// ledger is read in one snapshot, then gates and log, then the marks are compared:
// if nothing was pending and nothing has changed, all three were read at rest.
func (a *Audit) Run(ctx context.Context) (Report, error) {
	deadline := time.Now().Add(a.Wait)
	for {
		if err := a.awaitRest(ctx, deadline); err != nil {
			return Report{}, a.failed(err)
		}
		report, err := a.once(ctx)
		if err != nil {
			return Report{}, a.failed(err)
		}
		if report.AtRest || !time.Now().Before(deadline) {
			return report, nil
		}
	}
}

func (a *Audit) failed(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "42703") {
		err = ErrNotMigrated
	}
	return fmt.Errorf("audit: %w", err)
}

// auditing is one reading of the stores.
type auditing struct {
	*Audit
	tx     pgx.Tx // the ledger's snapshot
	report Report

	activities []*auditedActivity
	settled    map[int]uint64 // by partition
	ahead      uint64         // messages after the settled position
	moving     bool           // something was pending or has changed
	resting    findings       // hold only if nothing was moving
	always     findings
}

type auditedActivity struct {
	id    string
	epoch int64
	skus  map[string]*AuditedSKU
	order []string // of the SKUs
	mark  admission.GateMark
	held  map[string]bool // held orders that are pending at the gate; they stay so until an operator decides
}

// findings is a bounded list of violations.
type findings struct {
	list []Violation
	more int
}

func (f *findings) add(v Violation) {
	if len(f.list) >= mostViolations {
		f.more++
		return
	}
	f.list = append(f.list, v)
}

func (a *Audit) once(ctx context.Context) (Report, error) {
	run := &auditing{Audit: a}
	if err := run.readMarks(ctx); err != nil {
		return Report{}, err
	}
	tx, err := a.Ledger.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has only read
	run.tx = tx
	for _, step := range []func(context.Context) error{
		run.longReads, run.readBooks, run.judgeRows, run.compareGates, run.readLog, run.compareMarks,
	} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return run.conclude(), nil
}

// longReads lifts the limits that are meant for settlement: this transaction locks
// no row, and waits for other stores between its statements.
func (r *auditing) longReads(ctx context.Context) error {
	_, err := r.tx.Exec(ctx, `set local idle_in_transaction_session_timeout = 0; set local statement_timeout = 0`)
	return err
}

// conclude judges the sums and puts the report together.
func (r *auditing) conclude() Report {
	r.report.AtRest = !r.moving && r.ahead == 0
	r.report.Activities = []AuditedActivity{}
	for _, a := range r.activities {
		shown := AuditedActivity{Activity: a.id, SKUs: []AuditedSKU{}}
		for _, id := range a.order {
			r.judgeSKU(a, a.skus[id])
			shown.SKUs = append(shown.SKUs, *a.skus[id])
		}
		r.report.Activities = append(r.report.Activities, shown)
	}
	found := r.always
	if r.report.AtRest {
		for _, v := range r.resting.list {
			v.gate = true
			found.add(v)
		}
		found.more += r.resting.more
	}
	r.report.Violations, r.report.LeftOff = append([]Violation{}, found.list...), found.more
	r.report.OK = len(found.list) == 0
	return r.report
}

func (r *auditing) judgeSKU(a *auditedActivity, s *AuditedSKU) {
	broken := func(to *findings, law, format string, args ...any) {
		to.add(Violation{Law: law, Activity: a.id, SKU: s.SKU, Detail: fmt.Sprintf(format, args...)})
	}
	if s.Live > s.Total {
		broken(&r.always, LawOversold, "%d units are in live orders, the total is %d", s.Live, s.Total)
	}
	if s.Stock < 0 {
		broken(&r.always, LawNegative, "the ledger's stock is %d", s.Stock)
	}
	if s.Total != s.Stock+s.Live {
		broken(&r.always, LawStatus, "total %d is not stock %d + live %d in the ledger", s.Total, s.Stock, s.Live)
	}
	if s.GateStock == nil {
		return
	}
	if *s.GateStock < 0 {
		r.always.add(Violation{
			Law: LawNegative, Activity: a.id, SKU: s.SKU, Detail: fmt.Sprintf("the gate's stock is %d", *s.GateStock), gate: true,
		})
	}
	if sum := s.Live + *s.GateStock + s.Undecided + s.ReleaseDue; a.mark.Ready(a.epoch) && sum != s.Total {
		broken(&r.resting, LawStranded, "total %d is not live %d + gate stock %d + undecided %d + release due %d; off by %+d",
			s.Total, s.Live, *s.GateStock, s.Undecided, s.ReleaseDue, sum-s.Total)
	}
}
