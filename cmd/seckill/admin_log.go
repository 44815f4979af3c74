package main

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

// logAPI shows the activity log: who changed what, and why.
type logAPI struct {
	ledger *consumer.Ledger
}

type logInput struct {
	Subject string `query:"subject" maxLength:"1024" doc:"only of this activity, order, replay or lock"`
	Actor   string `query:"actor" maxLength:"1024" doc:"only by this actor"`
	Before  int64  `query:"before" minimum:"1" doc:"next of the page before"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type logOutput struct {
	Body struct {
		Entries []consumer.LogEntry `json:"entries" doc:"newest first"`
		Next    int64               `json:"next,omitempty"`
	}
}

func (a *logAPI) list(ctx context.Context, in *logInput) (*logOutput, error) {
	entries, err := a.ledger.ActivityLog(ctx, consumer.LogFilter{Subject: in.Subject, Actor: in.Actor, Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out := &logOutput{}
	out.Body.Entries = append([]consumer.LogEntry{}, entries...)
	if len(entries) == in.Limit {
		out.Body.Next = entries[len(entries)-1].ID
	}
	return out, nil
}

func (a *logAPI) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-activity-log", Method: http.MethodGet, Path: "/admin/v1/activity-log",
		Summary: "What operators have changed, who and why",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable},
	}, a.list)
}
