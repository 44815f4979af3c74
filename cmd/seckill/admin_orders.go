package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
)

// orderAPI is the operators' side of orders over HTTP; seckill order is the other.
type orderAPI struct {
	node *node
}

type cancelOrderInput struct {
	ID   string `path:"id"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"for the activity log"`
		Refund *bool  `json:"refund,omitempty" default:"true" doc:"the money of a paid order is due to go back"`
	}
}

type cancelOrderOutput struct {
	Body orderLine
}

func (a *orderAPI) cancel(ctx context.Context, in *cancelOrderInput) (*cancelOrderOutput, error) {
	if !admission.ValidID(in.ID) {
		return nil, admission.NewProblem(admission.CodeNotFound, "There is no order %s.", in.ID)
	}
	if strings.TrimSpace(in.Body.Reason) == "" {
		return nil, invalid("reason says why, for the activity log")
	}
	s := a.node.stores
	row, err := s.cancelOrder(onAdminAPI(ctx, in.Body.Reason), s.desk(a.node.logger, a.node.config), in.ID, in.Body.Refund == nil || *in.Body.Refund)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return &cancelOrderOutput{Body: viewOrder(row)}, nil
}

func (a *orderAPI) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "cancel-any-order", Method: http.MethodPost, Path: "/admin/v1/orders/{id}/cancel",
		Summary: "Cancel an order, paid or not, decided or not", Middlewares: huma.Middlewares{a.node.tracing.Middleware("cancel")},
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}, a.cancel)
	huma.Register(api, huma.Operation{
		OperationID: "search-orders", Method: http.MethodGet, Path: "/admin/v1/orders",
		Summary: "Orders by id, by buyer, or of an activity, newest first",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable},
	}, a.search)
	huma.Register(api, huma.Operation{
		OperationID: "show-order", Method: http.MethodGet, Path: "/admin/v1/orders/{id}",
		Summary: "One order and its whole way",
		Errors:  []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable},
	}, a.show)
}
