package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

// beginAudit is the route that runs an audit as a job. A token that may only read may use
// it, as it may audit one activity with GET: it changes nothing but the activity log,
// which says who ran it, and one runs at a time.
const beginAudit = "POST " + auditsPath

const auditsPath = "/admin/v1/audits"

// mostAuditWait leaves an audit time to read after it has waited.
const mostAuditWait = adminTimeout - 10*time.Second

// auditAPI is the operators' audit, of one activity at once or as a job; seckill audit is
// the other way to it.
type auditAPI struct {
	stores *stores
	config Config
	jobs   *jobs
	turn   chan struct{} // one audit at a time: it reads the whole log of an activity
}

type auditInput struct {
	Activity string `path:"activity"`
	Wait     string `query:"wait" default:"0s" doc:"how long to wait until everything is at rest; at most 20s"`
}

type auditOutput struct {
	Body consumer.Report
}

func (a *auditAPI) audit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	wait, err := time.ParseDuration(in.Wait)
	if err != nil || wait < 0 || wait > mostAuditWait {
		return nil, invalid("wait must be a duration between 0s and " + mostAuditWait.String())
	}
	report, err := a.inTurn(ctx, a.stores.audit(a.config, in.Activity, wait).Run)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return &auditOutput{Body: report}, nil
}

// inTurn audits when no other audit of this process is under way.
func (a *auditAPI) inTurn(ctx context.Context, audit func(context.Context) (consumer.Report, error)) (consumer.Report, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
		return audit(ctx)
	case <-ctx.Done():
		return consumer.Report{}, context.Cause(ctx)
	}
}

// auditAsked is what an audit that runs as a job was asked.
type auditAsked struct {
	Activity string `json:"activity,omitempty" doc:"the only one to audit"`
	Wait     string `json:"wait,omitempty" default:"0s" doc:"how long to wait until everything is at rest; at most 10m"`
	Light    bool   `json:"light,omitempty" doc:"numbers of one activity only; orders, buyers and the log are not compared"`
}

type auditJobInput struct {
	Body auditAsked
}

// longestJobWait bounds how long the audit of a job waits for rest.
const longestJobWait = 10 * time.Minute

func (a *auditAPI) begin(ctx context.Context, in *auditJobInput) (*jobOutput, error) {
	wait, err := time.ParseDuration(in.Body.Wait)
	switch {
	case err != nil || wait < 0 || wait > longestJobWait:
		return nil, invalid("wait must be a duration between 0s and 10m")
	case in.Body.Light && in.Body.Activity == "":
		return nil, invalid("a light audit is of one activity")
	}
	if in.Body.Activity != "" {
		if _, err := a.stores.ledger.Activity(ctx, in.Body.Activity); err != nil {
			return nil, admission.AsProblem(err)
		}
	}
	view := jobView{Kind: jobAudit, Actor: callerOf(ctx).actor(), Asked: in.Body}
	return began(a.jobs.begin(view, func(ctx context.Context, j *jobs, one *job) (any, error) {
		audit := a.stores.audit(a.config, in.Body.Activity, wait)
		audit.Progress = func(read, of uint64) { j.progress(one, read, of) }
		how := audit.Run
		if in.Body.Light {
			how = audit.Light
		}
		report, err := a.inTurn(ctx, how)
		if err != nil {
			return nil, err
		}
		return report, a.stores.ledger.Note(ctx, "audit", orAll(in.Body.Activity), verdict(report))
	}))
}

func orAll(activity string) string {
	if activity == "" {
		return "installation"
	}
	return activity
}

// verdict is an audit in a few words.
func verdict(r consumer.Report) string {
	if r.OK {
		return fmt.Sprintf("the books agree; at rest: %t", r.AtRest)
	}
	return fmt.Sprintf("%d violations", len(r.Violations)+r.LeftOff)
}

func (a *auditAPI) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "audit-activity", Method: http.MethodGet, Path: "/admin/v1/activities/{activity}/audit",
		Summary: "Check the books of ledger, gate and log against each other",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable},
	}, a.audit)
	huma.Register(api, huma.Operation{
		OperationID: "run-audit", Method: http.MethodPost, Path: auditsPath, DefaultStatus: http.StatusAccepted,
		Summary: "Check the books of all activities, or of one, as a job",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}, a.begin)
}
