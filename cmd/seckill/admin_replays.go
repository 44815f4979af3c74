package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

// mostReplayLines is how many orders of a replay are kept in its job's result: those
// that were decided by it, or could not be.
const mostReplayLines = 200

// replayAPI plans, runs and shows replays; seckill replay is the other way to them.
type replayAPI struct {
	node *node
}

// SelectionBody is what seckill replay takes as flags. It is exported because huma leaves
// out what a type embeds that is not.
type SelectionBody struct {
	Source    string    `json:"source,omitempty" enum:"orders,dead" default:"orders" doc:"the log, or the dead letters"`
	Mode      string    `json:"mode,omitempty" enum:"republish,apply" default:"republish" doc:"the workers settle, or this process does"`
	Activity  string    `json:"activity,omitempty"`
	SKU       string    `json:"sku,omitempty"`
	User      string    `json:"user,omitempty"`
	Order     string    `json:"order,omitempty"`
	Partition *int      `json:"partition,omitempty"`
	FromSeq   uint64    `json:"from_seq,omitempty"`
	ToSeq     uint64    `json:"to_seq,omitempty"`
	Since     time.Time `json:"since,omitempty" doc:"reserved at or after"`
	Until     time.Time `json:"until,omitempty" doc:"reserved before"`
}

func (b SelectionBody) selection(partitions int) (consumer.Selection, error) {
	s := consumer.Selection{
		Source: b.Source, Mode: b.Mode, Activity: b.Activity, SKU: b.SKU, User: b.User, Order: b.Order,
		Partition: b.Partition, FromSeq: b.FromSeq, ToSeq: b.ToSeq, Since: b.Since.UTC(), Until: b.Until.UTC(),
	}
	if err := s.Check(partitions); err != nil {
		return s, invalid(err.Error())
	}
	return s, nil
}

type planInput struct {
	Body SelectionBody
}

// replayResult is the end of a replay, with the orders that it has moved or could not.
type replayResult struct {
	consumer.ReplaySummary
	Lines []consumer.ReplayLine `json:"lines"`
}

func (a *replayAPI) plan(ctx context.Context, in *planInput) (*jobOutput, error) {
	selection, err := in.Body.selection(a.node.config.Partitions)
	if err != nil {
		return nil, err
	}
	view := jobView{Kind: jobPlan, Actor: callerOf(ctx).actor(), Asked: selection}
	return began(a.node.jobs.begin(view, func(ctx context.Context, j *jobs, one *job) (any, error) {
		replay := a.node.stores.replay(a.node.logger, a.node.config)
		replay.Progress = func(read, of uint64) { j.progress(one, read, of) }
		return replay.Plan(ctx, selection)
	}))
}

func began(view jobView, err error) (*jobOutput, error) {
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return &jobOutput{Body: view}, nil
}

type runInput struct {
	Body struct {
		SelectionBody
		Rate   int    `json:"rate,omitempty" minimum:"1" maximum:"1000000" doc:"most orders a second; without it no limit"`
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"for the activity log"`
	}
}

func (a *replayAPI) run(ctx context.Context, in *runInput) (*jobOutput, error) {
	selection, err := in.Body.selection(a.node.config.Partitions)
	if err == nil && strings.TrimSpace(in.Body.Reason) == "" {
		err = invalid("reason is empty: say why, for the activity log")
	}
	if err != nil {
		return nil, err
	}
	return a.begin(ctx, selection, "", in.Body.Rate, in.Body.Reason)
}

type resumeInput struct {
	Run  string `path:"run"`
	Body struct {
		Rate   int    `json:"rate,omitempty" minimum:"1" maximum:"1000000" doc:"most orders a second; without it no limit"`
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"for the activity log"`
	}
}

func (a *replayAPI) resume(ctx context.Context, in *resumeInput) (*jobOutput, error) {
	run, err := a.node.stores.ledger.Run(ctx, validRun(in.Run))
	if err != nil {
		return nil, replayProblem(err)
	}
	if err := a.node.stores.ledger.Note(onAdminAPI(ctx, in.Body.Reason), "resume replay", run.ID, run.Selection.Mode+" from "+run.Selection.Source); err != nil {
		return nil, admission.AsProblem(err)
	}
	return a.begin(ctx, run.Selection, run.ID, in.Body.Rate, in.Body.Reason)
}

// validRun is an id that the ledger can be asked for.
func validRun(id string) string {
	if admission.ValidID(id) {
		return id
	}
	return "00000000-0000-0000-0000-000000000000" // nobody's
}

// begin starts a replay as a job, or resumes one.
func (a *replayAPI) begin(ctx context.Context, selection consumer.Selection, resume string, rate int, reason string) (*jobOutput, error) {
	view := jobView{Kind: jobReplay, Actor: callerOf(ctx).actor(), Reason: strings.TrimSpace(reason), Asked: selection, Run: resume}
	return began(a.node.jobs.begin(view, func(ctx context.Context, j *jobs, one *job) (any, error) {
		n, result := a.node, replayResult{Lines: []consumer.ReplayLine{}}
		replay := n.stores.replay(n.logger, n.config)
		replay.Rate = rate
		replay.Progress = func(read, of uint64) { j.progress(one, read, of) }
		replay.Begun = func(run consumer.ReplayRun) { j.change(one, func() { one.view.Run = run.ID }) }
		replay.Report = func(lines []consumer.ReplayLine) error { result.add(lines); return nil }
		var err error
		result.ReplaySummary, err = n.stores.pass(ctx, n.config, replay, selection, resume)
		if result.Run == "" {
			return nil, err
		}
		return result, err
	}))
}

// add keeps the first lines that say more than that an order was decided before.
func (r *replayResult) add(lines []consumer.ReplayLine) {
	for _, l := range lines {
		if l.Result != "already" && len(r.Lines) < mostReplayLines {
			r.Lines = append(r.Lines, l)
		}
	}
}

func (a *replayAPI) register(api huma.API) {
	const path = "/admin/v1/replays"
	operation := func(id, method, path, summary string, status int, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
			Errors: append(errors, http.StatusUnauthorized, http.StatusServiceUnavailable),
		}
	}
	huma.Register(api, operation("plan-replay", http.MethodPost, path+"/plan", "Count what a replay would find, as a job",
		http.StatusAccepted, http.StatusBadRequest, http.StatusConflict), a.plan)
	huma.Register(api, operation("run-replay", http.MethodPost, path, "Pass orders through settlement again, as a job",
		http.StatusAccepted, http.StatusBadRequest, http.StatusConflict), a.run)
	huma.Register(api, operation("resume-replay", http.MethodPost, path+"/{run}/resume", "Go on with a replay where it stopped, as a job",
		http.StatusAccepted, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict), a.resume)
	huma.Register(api, operation("list-replays", http.MethodGet, path, "The records of all replays", http.StatusOK), a.list)
	huma.Register(api, operation("get-replay", http.MethodGet, path+"/{run}", "The record of a replay", http.StatusOK, http.StatusNotFound), a.get)
}
