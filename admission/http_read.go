package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// OrderView is an order as its buyer sees it.
type OrderView struct {
	ID         string  `json:"order_id" format:"uuid"`
	Activity   string  `json:"activity"`
	SKU        string  `json:"sku"`
	Quantity   int64   `json:"quantity"`
	Amount     int64   `json:"amount" doc:"in the smallest unit of money"`
	Status     Status  `json:"status" enum:"accepted,held,pending_payment,confirmed,paid,cancelled,expired,rejected"`
	Reason     string  `json:"reason,omitempty"`
	CreatedAt  string  `json:"created_at" format:"date-time"`
	DecidedAt  *string `json:"decided_at,omitempty" format:"date-time"`
	PayBefore  *string `json:"pay_before,omitempty" format:"date-time"`
	Refund     string  `json:"refund,omitempty" enum:"due" doc:"the money of this order has to go back"`
	ReplacedBy string  `json:"replaced_by,omitempty" format:"uuid" doc:"the order that a late payment of this one bought"`
}

// View shows a row as its buyer sees it: why an order is held is for operators.
func (r Row) View() OrderView {
	if r.Status == Held {
		r.Reason = ""
	}
	return OrderView{
		ID: r.ID, Activity: r.Activity, SKU: r.SKU, Quantity: r.Quantity, Amount: r.Amount,
		Status: r.Status, Reason: r.Reason, CreatedAt: formatTime(r.CreatedAt),
		DecidedAt: optionalTime(r.DecidedAt), PayBefore: optionalTime(r.PayBefore),
		Refund: r.Refund, ReplacedBy: r.ReplacedBy,
	}
}

// ActivityView is a sale as everybody sees it.
type ActivityView struct {
	Activity   string    `json:"activity"`
	Title      string    `json:"title"`
	State      State     `json:"state" enum:"draft,open,paused,closed"`
	StartsAt   *string   `json:"starts_at" format:"date-time"`
	EndsAt     *string   `json:"ends_at" format:"date-time"`
	ServerTime string    `json:"server_time" format:"date-time"`
	SKUs       []SKUView `json:"skus"`
}

// SKUView is what is on sale.
type SKUView struct {
	SKU          string `json:"sku"`
	Remaining    int64  `json:"remaining"`
	SoldOut      bool   `json:"sold_out"`
	LimitPerUser int64  `json:"limit_per_user"`
	Price        int64  `json:"price"`
}

// Show returns the public picture of an activity, at most 200 ms old.
func (s *Service) Show(ctx context.Context, id string) (ActivityView, error) {
	p, err := s.catalog.get(ctx, id, snapshotAge)
	if err != nil {
		return ActivityView{}, AsProblem(err)
	}
	a := p.activity
	v := ActivityView{
		Activity: a.ID, Title: a.Title, State: a.State, StartsAt: optionalTime(a.StartsAt),
		EndsAt: optionalTime(a.EndsAt), ServerTime: formatTime(time.Now()), SKUs: []SKUView{},
	}
	selling := a.State == Open || a.State == Paused
	if selling && (p.gateErr != nil || !p.gate.Ready(a.Epoch)) {
		return v, AsProblem(&NotReadyError{Activity: id})
	}
	for _, sku := range a.SKUs {
		left := sku.Stock
		if selling {
			left = max(p.gate.Stock[sku.ID], 0)
		}
		v.SKUs = append(v.SKUs, SKUView{
			SKU: sku.ID, Remaining: left, SoldOut: left == 0, LimitPerUser: sku.LimitPerUser, Price: sku.Price,
		})
	}
	return v, nil
}

type activityInput struct {
	Activity    string `path:"activity" maxLength:"64"`
	IfNoneMatch string `header:"If-None-Match"`
}

type activityOutput struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         *ActivityView
}

func (h *Handler) getActivity(ctx context.Context, in *activityInput) (*activityOutput, error) {
	v, err := h.service.Show(ctx, in.Activity)
	if err != nil {
		return nil, AsProblem(err)
	}
	unclocked := v
	unclocked.ServerTime = ""
	tag := etag(fmt.Sprint(unclocked.Title, unclocked.State, deref(v.StartsAt), deref(v.EndsAt), v.SKUs))
	out := &activityOutput{Status: http.StatusOK, ETag: tag, CacheControl: "max-age=1", Body: &v}
	if matches(in.IfNoneMatch, tag) {
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return out, nil
}

// matches says whether a tag is among those of an If-None-Match header; a proxy may
// have weakened it.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

type orderInput struct {
	Activity string `path:"activity" maxLength:"64"`
	ID       string `path:"id" maxLength:"64"`
	Wait     string `query:"wait" doc:"how long to wait for a decision, up to 30s" example:"10s"`

	IfNoneMatch string `header:"If-None-Match"`
}

type orderOutput struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         *OrderView
}

func (h *Handler) getOrder(ctx context.Context, in *orderInput) (*orderOutput, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, AsProblem(err)
	}
	if !ValidName(in.Activity) || !ValidID(in.ID) {
		return nil, NewProblem(CodeNotFound, "You have no order %s.", in.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	row, err := h.service.Wait(ctx, in.Activity, buyerOf(ctx), in.ID)
	if err != nil {
		return nil, AsProblem(err)
	}
	v := row.View()
	out := &orderOutput{Status: http.StatusOK, ETag: v.tag(), CacheControl: "private, no-cache", Body: &v}
	if matches(in.IfNoneMatch, out.ETag) {
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return out, nil
}

// tag names this state of the order.
func (v OrderView) tag() string {
	data, _ := json.Marshal(v) // strings and numbers
	return etag(string(data))
}

type ordersInput struct {
	Activity string `path:"activity" maxLength:"64"`
	Before   string `query:"before" doc:"the next of the page before"`
	Limit    int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type ordersOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Orders []OrderView `json:"orders"`
		Next   string      `json:"next,omitempty"`
	}
}

func (h *Handler) listOrders(ctx context.Context, in *ordersInput) (*ordersOutput, error) {
	if in.Before != "" && !ValidID(in.Before) {
		return nil, NewProblem(CodeInvalid, "before is the next of the page before.")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	rows, err := h.service.List(ctx, in.Activity, buyerOf(ctx), in.Before, in.Limit+1)
	if err != nil {
		return nil, AsProblem(err)
	}
	out := &ordersOutput{CacheControl: "no-store"}
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		out.Body.Next = rows[len(rows)-1].ID
	}
	out.Body.Orders = make([]OrderView, 0, len(rows))
	for _, row := range rows {
		out.Body.Orders = append(out.Body.Orders, row.View())
	}
	return out, nil
}

// List returns a buyer's orders, newest first: on the first page also those that
// only the gate knows yet.
func (s *Service) List(ctx context.Context, activity, user, before string, limit int) ([]Row, error) {
	p, err := s.catalog.get(ctx, activity, -1)
	if err != nil {
		return nil, AsProblem(err)
	}
	// First the gate: an order that is settled meanwhile has a row when the ledger is read.
	var pending []Reservation
	if before == "" {
		if pending, err = s.pendingOf(ctx, p.activity, user); err != nil {
			return nil, AsProblem(err)
		}
	}
	decided, err := s.ledger.OrdersOf(ctx, activity, user, before, limit)
	if err != nil {
		return nil, AsProblem(fmt.Errorf("list a buyer's orders of activity %s: %w", activity, err))
	}
	known := map[string]bool{}
	for _, row := range decided {
		known[row.ID] = true
	}
	var rows []Row
	for _, r := range pending {
		if known[r.ID] {
			continue // the gate will be told
		}
		row, err := s.undecided(ctx, activity, r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return append(rows, decided...), nil
}

// pendingOf lists what the gate holds as undecided for a buyer.
func (s *Service) pendingOf(ctx context.Context, a Activity, user string) ([]Reservation, error) {
	var pending []Reservation
	for _, sku := range a.SKUs {
		charged, err := s.gate.Charged(ctx, a.ID, sku.ID, user)
		if err != nil {
			return nil, err
		}
		for _, r := range charged {
			if r.State == Pending {
				pending = append(pending, r)
			}
		}
	}
	return pending, nil
}

func (h *Handler) registerReads(api huma.API) {
	refusals := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable}
	buyer := huma.Middlewares{h.buyer}
	huma.Register(api, huma.Operation{
		OperationID: "get-activity", Method: http.MethodGet, Path: "/v1/activities/{activity}",
		Summary: "A sale and what is left of it, at most 200 ms old", Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, h.getActivity)
	huma.Register(api, huma.Operation{
		OperationID: "get-order", Method: http.MethodGet, Path: "/v1/activities/{activity}/orders/{id}",
		Summary: "An order of yours, when it is decided or the wait is over", Errors: refusals, Middlewares: buyer,
	}, h.getOrder)
	huma.Register(api, huma.Operation{
		OperationID: "list-orders", Method: http.MethodGet, Path: "/v1/activities/{activity}/orders",
		Summary: "Your orders of a sale, newest first", Errors: refusals, Middlewares: buyer,
	}, h.listOrders)
}
