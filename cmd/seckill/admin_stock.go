package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

type stockInput struct {
	Activity string `path:"activity"`
	SKU      string `path:"sku"`
	Key      string `header:"Idempotency-Key" doc:"asking again under it changes the stock once"`
	Body     struct {
		Delta  int64  `json:"delta" minimum:"-2147483647" maximum:"2147483647" doc:"units to add, or to take away if negative"`
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"for the activity log"`
	}
}

func (a *adminAPI) stock(ctx context.Context, in *stockInput) (*activityResult, error) {
	switch {
	case in.Body.Delta == 0:
		return nil, invalid("delta is 0: it would change nothing")
	case strings.TrimSpace(in.Body.Reason) == "":
		return nil, invalid("reason is empty: say why, for the activity log")
	case in.Key != "" && !admission.ValidKey(in.Key):
		return nil, invalid("Idempotency-Key is 1 to 255 printable ASCII characters")
	}
	defer a.changed(in.Activity)
	return shown(a.operator.stock(onAdminAPI(ctx, in.Body.Reason), consumer.StockDelta{
		Activity: in.Activity, SKU: in.SKU, Delta: in.Body.Delta, Key: in.Key,
	}))
}

func (a *adminAPI) registerStock(api huma.API, operation huma.Operation) {
	operation.Errors = append(operation.Errors, http.StatusUnprocessableEntity)
	operation.Description = "Units that are added are for sale at once. To take units away, the sale is closed for " +
		"some seconds; they are taken only if so many are free once all that was admitted is decided."
	huma.Register(api, operation, a.stock)
}
