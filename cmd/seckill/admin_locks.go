package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/lockprovider"
)

// lockAPI is the operators' side of the leases over HTTP; seckill lock is the other.
type lockAPI struct {
	node *node
}

type locksOutput struct {
	Body struct {
		Backend string     `json:"backend"`
		Locks   []lockLine `json:"locks"`
	}
}

type lockReleaseInput struct {
	Body struct {
		Name   string `json:"name" minLength:"1" maxLength:"1024"`
		Token  uint64 `json:"token" minimum:"1" doc:"of the hold that is to end, from GET /admin/v1/locks"`
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the activity log"`
	}
}

type lockReleaseOutput struct {
	Body struct {
		Name     string `json:"name"`
		Token    uint64 `json:"token"`
		Released bool   `json:"released"`
	}
}

// leases is the provider of the worker in this process, or one for this request.
func (a *lockAPI) leases(ctx context.Context) (*lockprovider.Provider, func(), error) {
	if a.node.leases != nil {
		return a.node.leases, func() {}, nil
	}
	provider, end, err := openLeases(ctx, a.node.config, a.node.config.LockBackend)
	if err != nil {
		return nil, nil, admission.NewProblem(admission.CodeNotReady, "This process cannot ask the lock store: %v", err).Because(err)
	}
	return provider, end, nil
}

func (a *lockAPI) list(ctx context.Context, _ *struct{}) (*locksOutput, error) {
	provider, end, err := a.leases(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	infos, err := provider.List(ctx, "")
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out := &locksOutput{}
	out.Body.Backend, out.Body.Locks = a.node.config.LockBackend, lockLines(infos)
	return out, nil
}

func (a *lockAPI) release(ctx context.Context, in *lockReleaseInput) (*lockReleaseOutput, error) {
	provider, end, err := a.leases(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	err = evict(onAdminAPI(ctx, in.Body.Reason), provider, a.node.stores.ledger, a.node.config.LockBackend, in.Body.Name, in.Body.Token)
	switch {
	case errors.Is(err, errLeaseFree):
		return nil, admission.NewProblem(admission.CodeNotFound, "Nobody holds %s.", in.Body.Name)
	case errors.Is(err, errOtherHolder):
		return nil, admission.NewProblem(admission.CodeTokenMismatch, "%v.", err)
	case err != nil:
		return nil, admission.AsProblem(err)
	}
	out := &lockReleaseOutput{}
	out.Body.Name, out.Body.Token, out.Body.Released = in.Body.Name, in.Body.Token, true
	return out, nil
}

func (a *lockAPI) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-locks", Method: http.MethodGet, Path: "/admin/v1/locks",
		Summary: "Who holds which lease",
		Errors:  []int{http.StatusUnauthorized, http.StatusServiceUnavailable},
	}, a.list)
	huma.Register(api, huma.Operation{
		OperationID: "release-lock", Method: http.MethodPost, Path: "/admin/v1/locks/release",
		Summary: "Take a lease from the holder that has the given token",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}, a.release)
}
