package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"seckill/admission"
	"seckill/consumer"
)

// longestPaymentWindow bounds for how long an order may keep units that nobody paid for.
const longestPaymentWindow = 720 * time.Hour

// adminAPI is the operators' side of activities over HTTP; seckill activity is the
// other. Both do what operator does.
type adminAPI struct {
	operator *operator
	changed  func(activity string) // told of every change, so that this process shows it at once
}

// activityBody is an activity as an operator writes it.
type activityBody struct {
	Title         string    `json:"title,omitempty" maxLength:"200"`
	StartsAt      string    `json:"starts_at,omitempty" format:"date-time" doc:"empty: from the moment it is opened"`
	EndsAt        string    `json:"ends_at,omitempty" format:"date-time" doc:"empty: until it is closed"`
	PaymentWindow string    `json:"payment_window,omitempty" default:"0s" doc:"time to pay in, up to 720h; 0s: orders are confirmed at once"`
	SKUs          []skuBody `json:"skus" minItems:"1" maxItems:"1000"`
}

type skuBody struct {
	SKU          string `json:"sku" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Total        int64  `json:"total" minimum:"0" maximum:"2147483647"`
	LimitPerUser int64  `json:"limit_per_user,omitempty" minimum:"1" maximum:"2147483647" default:"1"`
	Price        int64  `json:"price,omitempty" minimum:"0" maximum:"1000000000000" doc:"of one unit, in the smallest unit of money"`
}

// activityAdminView is an activity as an operator sees it.
type activityAdminView struct {
	Activity      string          `json:"activity"`
	Title         string          `json:"title"`
	State         admission.State `json:"state"`
	StartsAt      *time.Time      `json:"starts_at"`
	EndsAt        *time.Time      `json:"ends_at"`
	PaymentWindow string          `json:"payment_window"`
	Epoch         int64           `json:"epoch"`
	SKUs          []skuAdminView  `json:"skus"`
}

type skuAdminView struct {
	SKU          string `json:"sku"`
	Total        int64  `json:"total"`
	Stock        int64  `json:"stock" doc:"units not in a live order"`
	Live         int64  `json:"live" doc:"units in live orders"`
	LimitPerUser int64  `json:"limit_per_user"`
	Price        int64  `json:"price"`
}

func viewActivity(a admission.Activity) activityAdminView {
	v := activityAdminView{
		Activity: a.ID, Title: a.Title, State: a.State, StartsAt: timeOrNil(a.StartsAt), EndsAt: timeOrNil(a.EndsAt),
		PaymentWindow: a.PaymentWindow.String(), Epoch: a.Epoch, SKUs: []skuAdminView{},
	}
	for _, s := range a.SKUs {
		v.SKUs = append(v.SKUs, skuAdminView{
			SKU: s.ID, Total: s.Total, Stock: s.Stock, Live: s.Live(), LimitPerUser: s.LimitPerUser, Price: s.Price,
		})
	}
	return v
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// activity checks the body and turns it into what the ledger takes.
func (b activityBody) activity(id string) (admission.Activity, error) {
	a := admission.Activity{ID: id, Title: b.Title}
	if !admission.ValidName(id) {
		return a, invalid("an activity id is 1 to 64 letters, digits, _ and -")
	}
	if strings.ContainsFunc(b.Title, unicode.IsControl) {
		return a, invalid("title has a control character in it")
	}
	if len(b.SKUs) == 0 {
		return a, invalid("skus is empty: an activity sells something")
	}
	var err error
	if a.StartsAt, err = parseTime("starts_at", b.StartsAt); err != nil {
		return a, err
	}
	if a.EndsAt, err = parseTime("ends_at", b.EndsAt); err != nil {
		return a, err
	}
	if !a.EndsAt.IsZero() && !a.EndsAt.After(a.StartsAt) {
		return a, invalid("ends_at must be after starts_at")
	}
	if b.PaymentWindow != "" {
		a.PaymentWindow, err = time.ParseDuration(b.PaymentWindow)
	}
	if w := a.PaymentWindow; err != nil || w < 0 || w > longestPaymentWindow || w%time.Millisecond != 0 {
		return a, invalid("payment_window must be a duration in whole milliseconds such as 15m, from 0s (orders are confirmed at once) to 720h")
	}
	seen := map[string]bool{}
	for _, s := range b.SKUs {
		if seen[s.SKU] {
			return a, invalid("SKU " + s.SKU + " is listed twice")
		}
		seen[s.SKU] = true
		if s.LimitPerUser == 0 { // not given
			s.LimitPerUser = 1
		}
		limit := max(s.LimitPerUser, 1) // left out; a given one is checked to be 1 or more
		a.SKUs = append(a.SKUs, admission.SKU{ID: s.SKU, Total: s.Total, LimitPerUser: limit, Price: s.Price})
	}
	return a, nil
}

// parseTime reads an instant with its zone; the sale's clock counts milliseconds.
func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, invalid(name + " is not an RFC 3339 time with zone, such as 2026-12-01T20:00:00+08:00")
	}
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return t, invalid(name + " is finer than a millisecond")
	}
	return t.UTC(), nil
}

func invalid(detail string) error {
	return admission.NewProblem(admission.CodeInvalid, "%s", detail)
}

type putInput struct {
	Activity string `path:"activity"`
	Body     activityBody
	RawBody  []byte
}

type activityResult struct {
	Status int
	Body   activityAdminView
}

func (a *adminAPI) put(ctx context.Context, in *putInput) (*activityResult, error) {
	// Strictly, once more: names count as they are written, each once.
	var body activityBody
	if err := json.Unmarshal(in.RawBody, &body, json.RejectUnknownMembers(true)); err != nil {
		return nil, admission.NewProblem(admission.CodeInvalid, "The body is not an activity: %.300s.", err)
	}
	activity, err := body.activity(in.Activity)
	if err != nil {
		return nil, err
	}
	defer a.changed(in.Activity)
	created, activity, err := a.operator.put(onAdminAPI(ctx, ""), activity)
	result, err := shown(activity, err)
	if created && err == nil {
		result.Status = http.StatusCreated
	}
	return result, err
}

type activityPath struct {
	Activity string `path:"activity"`
}

func (a *adminAPI) get(ctx context.Context, in *activityPath) (*activityResult, error) {
	return shown(a.operator.ledger.Activity(ctx, in.Activity))
}

// stepInput is a step of an activity; its body may be left out.
type stepInput struct {
	Activity string `path:"activity"`
	Body     *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the activity log"`
	} `required:"false"`
}

// by answers with what a step of the operator leaves.
func (a *adminAPI) by(step func(context.Context, string) (admission.Activity, error)) func(context.Context, *stepInput) (*activityResult, error) {
	return func(ctx context.Context, in *stepInput) (*activityResult, error) {
		reason := ""
		if in.Body != nil {
			reason = in.Body.Reason
		}
		defer a.changed(in.Activity)
		return shown(step(onAdminAPI(ctx, reason), in.Activity))
	}
}

type activitiesOutput struct {
	Body struct {
		Activities []activityAdminView `json:"activities"`
	}
}

func (a *adminAPI) list(ctx context.Context, _ *struct{}) (*activitiesOutput, error) {
	views, err := a.operator.list(ctx)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out := &activitiesOutput{}
	out.Body.Activities = views
	return out, nil
}

func shown(activity admission.Activity, err error) (*activityResult, error) {
	if err != nil {
		return nil, adminProblem(err)
	}
	return &activityResult{Status: http.StatusOK, Body: viewActivity(activity)}, nil
}

// adminProblem turns the ledger's refusals into answers.
func adminProblem(err error) error {
	for cause, code := range map[error]admission.Code{
		consumer.ErrUseDelta: admission.CodeUseDelta, consumer.ErrClosed: admission.CodeClosed,
		consumer.ErrNotOpen: admission.CodeNotOpen, consumer.ErrNoSKUs: admission.CodeInvalid,
		consumer.ErrNotEnough: admission.CodeNotEnough, consumer.ErrTooMany: admission.CodeInvalid,
		consumer.ErrNoSKU: admission.CodeNotFound, consumer.ErrDeltaKey: admission.CodeMismatch,
	} {
		if errors.Is(err, cause) {
			return admission.NewProblem(code, "%v", cause)
		}
	}
	return admission.AsProblem(err)
}

func (a *adminAPI) register(api huma.API) {
	const path = "/admin/v1/activities/{activity}"
	operation := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary,
			Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
		}
	}
	huma.Register(api, operation("list-activities", http.MethodGet, "/admin/v1/activities", "All activities with their stock"), a.list)
	huma.Register(api, operation("put-activity", http.MethodPut, path, "Create or change an activity"), a.put)
	huma.Register(api, operation("get-activity", http.MethodGet, path, "An activity with its stock"), a.get)
	huma.Register(api, operation("open-activity", http.MethodPost, path+"/open", "Open it, or make sure that it is"), a.by(a.operator.open))
	huma.Register(api, operation("pause-activity", http.MethodPost, path+"/pause", "Admit nobody for now"), a.by(a.operator.pause))
	huma.Register(api, operation("resume-activity", http.MethodPost, path+"/resume", "Admit buyers again"), a.by(a.operator.resume))
	huma.Register(api, operation("close-activity", http.MethodPost, path+"/close", "End the sale for good"), a.by(a.operator.close))
	a.registerStock(api, operation("change-stock", http.MethodPost, path+"/skus/{sku}/stock", "Add units, or take some away"))
}
