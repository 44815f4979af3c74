package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"seckill/admission"
	"seckill/consumer"
)

const (
	// mostJobs is how many jobs are remembered.
	mostJobs = 50
	// longestJob ends a job that nobody has cancelled.
	longestJob = 6 * time.Hour
	// jobNews is the shortest time between two announcements of a job's progress.
	jobNews = time.Second
)

// The kinds of jobs. Those of one lane run one at a time.
const (
	jobAudit  = "audit"
	jobReplay = "replay"
	jobPlan   = "replay-plan"
)

// The states of a job.
const (
	jobRunning   = "running"
	jobDone      = "done"
	jobFailed    = "failed"
	jobCancelled = "cancelled"
)

// errCancelled ends a job that an operator has cancelled.
var errCancelled = errors.New("an operator cancelled it")

// jobView is a job as operators see it.
type jobView struct {
	Job       string     `json:"job"`
	Kind      string     `json:"kind" enum:"audit,replay,replay-plan"`
	State     string     `json:"state" enum:"running,done,failed,cancelled"`
	Actor     string     `json:"actor"`
	Reason    string     `json:"reason"`
	Asked     any        `json:"asked"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Read      uint64     `json:"read" doc:"messages read so far"`
	Of        uint64     `json:"of" doc:"messages to be read; 0: not known yet"`
	Run       string     `json:"run,omitempty" doc:"id of the replay's record, by which it can be resumed"`
	Result    any        `json:"result"`
	Error     string     `json:"error,omitempty"`
}

// job is work that takes longer than a request.
type job struct {
	view    jobView
	version int64 // rises with every change that is announced
	told    time.Time
	work    func(context.Context, *jobs, *job) (any, error)
	cancel  context.CancelCauseFunc // nil before it began and after its end
	dropped bool                    // cancelled before it began
}

// jobs are those of this process: at most one of a lane at a time, the newest
// remembered. Safe for concurrent use. A replay that ends with the process is resumed
// from its record in the ledger.
type jobs struct {
	mu      sync.Mutex
	all     []*job // oldest first
	version int64
	lanes   map[string]chan *job // by lane; one waits at most, while its lane wakes up
	changed func()               // told of every announcement; not under mu
}

func newJobs() *jobs {
	return &jobs{lanes: map[string]chan *job{jobAudit: make(chan *job, 1), jobReplay: make(chan *job, 1)}, changed: func() {}}
}

// run does the jobs of all lanes until ctx ends.
func (j *jobs) run(ctx context.Context) {
	var work sync.WaitGroup
	for _, lane := range j.lanes {
		work.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case one := <-lane:
					j.do(ctx, one)
				}
			}
		})
	}
	work.Wait()
}

// begin puts a job into its lane; a problem if the lane is taken.
func (j *jobs) begin(view jobView, work func(context.Context, *jobs, *job) (any, error)) (jobView, error) {
	view.Job, view.State, view.StartedAt = uuid.NewString(), jobRunning, time.Now().UTC()
	one := &job{view: view, work: work}
	if err := j.enter(one); err != nil {
		return jobView{}, err
	}
	j.changed()
	return view, nil
}

func (j *jobs) enter(one *job) error {
	lane := laneOf(one.view.Kind)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, other := range j.all {
		if other.view.State == jobRunning && laneOf(other.view.Kind) == lane {
			p := admission.NewProblem(admission.CodeBusy, "A job of this kind is running here (%s, since %s, begun by %s); wait for its end, or cancel it.",
				other.view.Kind, other.view.StartedAt.Format(time.RFC3339), other.view.Actor)
			p.Members = map[string]any{"job": other.view.Job}
			return p
		}
	}
	j.all = append(j.all, one)
	j.all = j.all[max(0, len(j.all)-mostJobs):]
	j.announce(one)
	j.lanes[lane] <- one // there is room: the lane has no other
	return nil
}

// laneOf is the lane of a kind of job: a plan and a replay read the same log.
func laneOf(kind string) string {
	if kind == jobAudit {
		return jobAudit
	}
	return jobReplay
}

// do runs one job to its end.
func (j *jobs) do(ctx context.Context, one *job) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, end := context.WithTimeoutCause(ctx, longestJob, errors.New("it took longer than a job may"))
	defer end()
	ctx = consumer.OnBehalf(ctx, consumer.Operator{Name: one.view.Actor, Reason: one.view.Reason})
	j.mu.Lock()
	one.cancel = cancel
	if one.dropped {
		cancel(errCancelled)
	}
	j.mu.Unlock()
	var result any
	err := context.Cause(ctx)
	if err == nil {
		result, err = one.work(ctx, j, one)
	}
	cause := context.Cause(ctx)
	j.change(one, func() {
		at := time.Now().UTC()
		one.cancel, one.view.EndedAt, one.view.Result, one.view.State = nil, &at, result, jobDone
		switch {
		case err == nil:
		case errors.Is(cause, errCancelled):
			one.view.State, one.view.Error = jobCancelled, oneLine(err.Error())
		default:
			one.view.State, one.view.Error = jobFailed, oneLine(err.Error())
		}
	})
}

// progress notes how far a job is, and announces it now and then.
func (j *jobs) progress(one *job, read, of uint64) {
	j.mu.Lock()
	one.view.Read, one.view.Of = read, of
	soon := time.Since(one.told) < jobNews
	if !soon {
		j.announce(one)
	}
	j.mu.Unlock()
	if !soon {
		j.changed()
	}
}

// change changes a job and announces it.
func (j *jobs) change(one *job, how func()) {
	j.mu.Lock()
	how()
	j.announce(one)
	j.mu.Unlock()
	j.changed()
}

func (j *jobs) announce(one *job) {
	j.version++
	one.version, one.told = j.version, time.Now()
}

// cancel asks a job to end; one that has ended stays as it is.
func (j *jobs) cancel(id string) (jobView, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		if one.view.Job == id {
			if one.dropped = true; one.cancel != nil {
				one.cancel(errCancelled)
			}
			return one.view, true
		}
	}
	return jobView{}, false
}

// list returns the jobs that have changed since a version, oldest first, and the
// present version.
func (j *jobs) list(since int64) ([]jobView, int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	views := []jobView{}
	for _, one := range j.all {
		if one.version > since {
			views = append(views, one.view)
		}
	}
	return views, j.version
}

// newest lists all jobs, newest first.
func (j *jobs) newest() []jobView {
	all, _ := j.list(0)
	slices.Reverse(all)
	return all
}
