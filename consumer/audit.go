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

// The laws of an audit. What one store says can be judged at any moment; what gate
// and ledger say of each other only at rest.
const (
	// LawOversold: the live orders of a SKU are more units than its total.
	LawOversold = "oversold"
	// LawLimit: a buyer has more live units of a SKU than the limit.
	LawLimit = "limit"
	// LawDuplicate: an order id has two rows, or one Idempotency-Key of a buyer two
	// orders (those that were never accepted, rejected as stale, aside).
	LawDuplicate = "duplicate"
	// LawLost: the log has an order that the settled position has passed, and it has
	// neither a row nor a pending reservation.
	LawLost = "lost"
	// LawNegative: a stock below 0, in the ledger or at the gate.
	LawNegative = "negative"
	// LawStranded: the equation total = live + gate stock + undecided + release due
	// is wrong, in either direction: units that nobody can buy, or that the gate
	// would sell again. At rest, with an open gate.
	LawStranded = "stranded"
	// LawStatus: what the stores say of one order or SKU cannot all be true. A status
	// or reason outside the list; a SKU whose total is not stock + live; a row that
	// is not what the log says; and at rest, with an open gate: an order that is
	// charged at the gate but neither live nor held, the reverse, or one that differs
	// in buyer, SKU or quantity. A forgotten release and a forgotten reservation
	// balance in LawStranded, and show here.
	LawStatus = "status"
)

// Report is the result of an audit.
type Report struct {
	OK         bool              `json:"ok"`
	AtRest     bool              `json:"at_rest" doc:"no backlog, nothing undecided but held orders, and nothing moved during the audit"`
	Activities []AuditedActivity `json:"activities"`
	Violations []Violation       `json:"violations"`
	LeftOff    int               `json:"violations_left_off,omitempty" doc:"violations found beyond the longest list"`
	Log        AuditedLog        `json:"log"`
}

// AuditedActivity is the books of one activity.
type AuditedActivity struct {
	Activity string       `json:"activity"`
	SKUs     []AuditedSKU `json:"skus"`
}

// AuditedSKU is the books of one SKU, in units.
type AuditedSKU struct {
	SKU        string `json:"sku"`
	Total      int64  `json:"total"`
	Stock      int64  `json:"stock" doc:"of the ledger: units not in a live order"`
	Live       int64  `json:"live" doc:"sum of the live orders"`
	GateStock  *int64 `json:"gate_stock" doc:"null without a gate"`
	Undecided  int64  `json:"undecided" doc:"reserved at the gate and not decided, and held"`
	ReleaseDue int64  `json:"release_due" doc:"dead in the ledger, not yet given back at the gate"`
	Epoch      int64  `json:"epoch"`
}

// AuditedLog is what the audit read of the order log.
type AuditedLog struct {
	LastSeq uint64 `json:"last_seq"`
	Orders  uint64 `json:"orders" doc:"orders in the log, those appended twice counted twice"`
	Backlog uint64 `json:"backlog" doc:"orders after the settled position"`
	Dead    uint64 `json:"dead" doc:"messages in the dead-letter stream"`
}

// Violation is one law that does not hold for one thing.
type Violation struct {
	Law      string `json:"law"`
	Activity string `json:"activity"`
	SKU      string `json:"sku"`
	Order    string `json:"order"`
	Detail   string `json:"detail"`
}

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
		broken(&r.always, LawNegative, "the gate's stock is %d", *s.GateStock)
	}
	if sum := s.Live + *s.GateStock + s.Undecided + s.ReleaseDue; a.mark.Ready(a.epoch) && sum != s.Total {
		broken(&r.resting, LawStranded, "total %d is not live %d + gate stock %d + undecided %d + release due %d; off by %+d",
			s.Total, s.Live, *s.GateStock, s.Undecided, s.ReleaseDue, sum-s.Total)
	}
}
