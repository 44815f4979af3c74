package admission

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Cancel makes a buyer's order dead, decided or in flight, and tells the gate before
// it answers, so that the units can be sold and the buyer may order again. Repeats
// return the same order.
func (s *Service) Cancel(ctx context.Context, activity, user, id string) (Row, error) {
	c := Cancellation{ID: id, Activity: activity, User: user, Partition: s.log.Partition(activity)}
	done, err := s.ledger.Cancel(ctx, c)
	if errors.Is(err, ErrNoOrder) {
		row, findErr := s.Find(ctx, activity, user, id)
		if findErr != nil {
			return Row{}, findErr
		}
		if row.Status == Accepted {
			c.InFlight = &row
		}
		done, err = s.ledger.Cancel(ctx, c)
	}
	if err != nil {
		return Row{}, AsProblem(err)
	}
	s.tellDead(ctx, done)
	s.log.Notify([]string{id})
	return done.Row, nil
}

// tellDead gives the units back at the gate. What does not arrive is brought by the
// release job, which finds the mark on the row, or by the sweep, which finds the
// pending record of an order that had no row.
func (s *Service) tellDead(ctx context.Context, done CancelResult) {
	if done.Epoch == 0 {
		return // no gate is believed: the next one is filled without the order
	}
	row := done.Row
	if err := s.gate.Settle(ctx, row.Activity, done.Epoch, []Outcome{{ID: row.ID}}); err != nil {
		s.logger.Warn("gate was not told of a dead order; it will be", "activity", row.Activity, "order", row.ID, "error", err)
	}
}

type cancelInput struct {
	Activity string `path:"activity" maxLength:"64"`
	ID       string `path:"id" maxLength:"64"`
}

func (h *Handler) cancelOrder(ctx context.Context, in *cancelInput) (*orderOutput, error) {
	if !ValidName(in.Activity) || !ValidID(in.ID) {
		return nil, NewProblem(CodeNotFound, "You have no order %s.", in.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.Timeout)
	defer cancel()
	row, err := h.service.Cancel(ctx, in.Activity, buyerOf(ctx), in.ID)
	if err != nil {
		return nil, AsProblem(err)
	}
	v := row.View()
	return &orderOutput{Status: http.StatusOK, CacheControl: "no-store", ETag: v.tag(), Body: &v}, nil
}

func (h *Handler) registerCancel(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "cancel-order", Method: http.MethodPost, Path: "/v1/activities/{activity}/orders/{id}/cancel",
		Summary: "Cancel an order of yours that is not paid, decided or not", Middlewares: huma.Middlewares{h.paced, h.service.tracing.Middleware("cancel")},
		Errors: []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable},
	}, h.cancelOrder)
}
