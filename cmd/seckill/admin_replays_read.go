package main

import (
	"context"
	"errors"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// replayView is the record of a replay.
type replayView struct {
	Run       string             `json:"run"`
	Selection consumer.Selection `json:"selection"`
	FromSeq   uint64             `json:"from_seq"`
	ToSeq     uint64             `json:"to_seq"`
	Position  uint64             `json:"position" doc:"everything up to here is done"`
	consumer.ReplayCounts
	StartedAt  time.Time  `json:"started_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

func viewReplay(r consumer.ReplayRun) replayView {
	return replayView{
		Run: r.ID, Selection: r.Selection, FromSeq: r.From, ToSeq: r.To, Position: r.Position, ReplayCounts: r.Counts,
		StartedAt: r.Started.UTC(), UpdatedAt: r.Updated.UTC(), FinishedAt: timeOrNil(r.Ended),
	}
}

type replaysInput struct {
	After string `query:"after" format:"uuid" doc:"next of the page before"`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type replaysOutput struct {
	Body struct {
		Replays []replayView `json:"replays" doc:"newest first"`
		Next    string       `json:"next,omitempty"`
	}
}

func (a *replayAPI) list(ctx context.Context, in *replaysInput) (*replaysOutput, error) {
	runs, err := a.node.stores.ledger.Runs(ctx, in.After, in.Limit)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out := &replaysOutput{}
	out.Body.Replays = []replayView{}
	for _, run := range runs {
		out.Body.Replays = append(out.Body.Replays, viewReplay(run))
	}
	if len(runs) == in.Limit {
		out.Body.Next = runs[len(runs)-1].ID
	}
	return out, nil
}

type replayInput struct {
	Run string `path:"run"`
}

type replayOutput struct {
	Body replayView
}

func (a *replayAPI) get(ctx context.Context, in *replayInput) (*replayOutput, error) {
	run, err := a.node.stores.ledger.Run(ctx, validRun(in.Run))
	if err != nil {
		return nil, replayProblem(err)
	}
	return &replayOutput{Body: viewReplay(run)}, nil
}

func replayProblem(err error) error {
	if errors.Is(err, consumer.ErrNoRun) {
		return admission.NewProblem(admission.CodeNotFound, "There is no such replay.").Because(err)
	}
	return admission.AsProblem(err)
}
