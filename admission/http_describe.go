package admission

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// ordersRoute is where buyers ask for an order.
const ordersRoute = "/v1/activities/{activity}/orders"

// describePlace serves the order route by hand and writes it into the document.
func (h *Handler) describePlace(api huma.API) {
	h.mux.HandleFunc("POST "+ordersRoute, h.place)
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	one, most, words := 1.0, float64(MaxQuantity), 255
	placed := map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"order_id", "status", "activity", "sku", "quantity"},
		Properties: map[string]*huma.Schema{
			"order_id": {Type: huma.TypeString, Format: "uuid"}, "status": text("accepted, or as the gate last knew it"),
			"activity": text(""), "sku": text(""), "quantity": {Type: huma.TypeInteger},
		},
	}}}
	responses := map[string]*huma.Response{
		"202": {Description: "The order is in the log, on disk", Content: placed},
		"200": {Description: "A repeat: the same order as before", Content: placed},
	}
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: (&Problem{}).Schema(nil)}}
	for _, status := range []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 503} {
		responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: problem}
	}
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: ordersRoute,
		Summary: "Ask for units of a SKU",
		Parameters: []*huma.Param{
			{Name: "activity", In: "path", Required: true, Schema: text("the sale")},
			{Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &words, Description: "asking again under it gives the same order"}},
			{Name: ticketHeader, In: "header", Schema: text("an entry ticket, for sales that take them")},
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"sku"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"sku":      text("what to buy"),
				"quantity": {Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: 1},
			},
		}}}},
		Responses: responses,
	})
}
