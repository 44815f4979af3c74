package main

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

// mostAuditWait leaves an audit time to read after it has waited.
const mostAuditWait = adminTimeout - 10*time.Second

// auditAPI is the operators' audit of one activity.
type auditAPI struct {
	stores *stores
	config Config
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
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, admission.AsProblem(context.Cause(ctx))
	}
	report, err := a.stores.audit(a.config, in.Activity, wait).Run(ctx)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return &auditOutput{Body: report}, nil
}

func (a *auditAPI) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "audit-activity", Method: http.MethodGet, Path: "/admin/v1/activities/{activity}/audit",
		Summary: "Check the books of ledger, gate and log against each other",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable},
	}, a.audit)
}
