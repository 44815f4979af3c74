package main

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
)

// jobAPI shows the jobs of this process and cancels them.
type jobAPI struct {
	jobs  *jobs
	notes func(ctx context.Context, action, subject, detail string) error // into the activity log
}

type jobsOutput struct {
	Body struct {
		Jobs []jobView `json:"jobs" doc:"newest first"`
	}
}

// jobOutput answers with a job; what began one answers with 202.
type jobOutput struct {
	Body jobView
}

type jobInput struct {
	ID string `path:"id"`
}

func noJob(id string) error {
	return admission.NewProblem(admission.CodeNotFound, "This process remembers no job %.100s; another one may.", id)
}

func (a *jobAPI) list(context.Context, *struct{}) (*jobsOutput, error) {
	out := &jobsOutput{}
	out.Body.Jobs = a.jobs.newest()
	return out, nil
}

func (a *jobAPI) get(_ context.Context, in *jobInput) (*jobOutput, error) {
	for _, view := range a.jobs.newest() {
		if view.Job == in.ID {
			return &jobOutput{Body: view}, nil
		}
	}
	return nil, noJob(in.ID)
}

func (a *jobAPI) cancel(ctx context.Context, in *jobInput) (*jobOutput, error) {
	view, ok := a.jobs.cancel(in.ID)
	if !ok {
		return nil, noJob(in.ID)
	}
	subject := view.Run
	if subject == "" {
		subject = view.Job
	}
	if err := a.notes(onAdminAPI(ctx, ""), "cancel job", subject, view.Kind); err != nil {
		return nil, admission.AsProblem(err)
	}
	return &jobOutput{Body: view}, nil
}

func (a *jobAPI) register(api huma.API) {
	errors := []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable}
	huma.Register(api, huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: "/admin/v1/jobs", Summary: "The jobs of this process", Errors: errors,
	}, a.list)
	huma.Register(api, huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: "/admin/v1/jobs/{id}", Summary: "A job of this process", Errors: errors,
	}, a.get)
	huma.Register(api, huma.Operation{
		OperationID: "cancel-job", Method: http.MethodPost, Path: "/admin/v1/jobs/{id}/cancel",
		Summary: "End a job; a replay can be resumed", Errors: errors,
	}, a.cancel)
}
