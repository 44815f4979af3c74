package admission

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	signatureHeader = "Seckill-Signature"
	paymentsRoute   = "/v1/payments"
	// signatureAge is how far the time of a signature may be from now: a message that
	// was listened to is of no use later. A repeat is signed anew.
	signatureAge = 5 * time.Minute
	// mostSignatures bounds the signatures of one message, one a key.
	mostSignatures = 8
	// mostPaymentID is the most that the id of a payment may measure, in bytes.
	mostPaymentID = 255
)

// SignPayment is the value of Seckill-Signature for a body, made with one key.
func SignPayment(secret, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(signed(secret, t, body))
}

func signed(secret []byte, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// checkSignature compares a signature with those of all keys, without telling by its
// time how near it came.
func checkSignature(header string, body []byte, secrets [][]byte, now time.Time) error {
	t, given, err := parseSignature(header)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if age := now.Sub(time.Unix(seconds, 0)); err != nil || age.Abs() > signatureAge {
		return fmt.Errorf("t is not within %s of this clock", signatureAge)
	}
	holds := false
	for _, secret := range secrets {
		right := signed(secret, t, body)
		for _, one := range given {
			holds = hmac.Equal(one, right) || holds
		}
	}
	if !holds {
		return errors.New("it was not made with a key of payment.secrets over these bytes")
	}
	return nil
}

// parseSignature reads t=<unix>,v1=<hex>, with a v1 for each key that signed.
func parseSignature(header string) (t string, given [][]byte, err error) {
	for i, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0 && name == "t" && value != "" && strings.Trim(value, "0123456789") == "":
			t = value
		case i > 0 && i <= mostSignatures && name == "v1":
			one, err := hex.DecodeString(value)
			if err != nil || len(one) != sha256.Size {
				return "", nil, errors.New("v1 is not an HMAC-SHA256 in hex")
			}
			given = append(given, one)
		default:
			return "", nil, errors.New("it is not t=<unix>,v1=<hex>")
		}
	}
	if len(given) == 0 {
		return "", nil, errors.New("it has no v1")
	}
	return t, given, nil
}

// set reads one member of a payment's body.
func (p *Payment) set(member string, value jsontext.Value) error {
	switch member {
	case "order_id", "payment_id":
		raw, err := jsontext.AppendUnquote(nil, value)
		if err != nil || value.Kind() != '"' {
			return fmt.Errorf("%s is not a string", member)
		}
		if member == "order_id" {
			p.Order = string(raw)
		} else {
			p.ID = string(raw)
		}
	case "amount":
		digits := string(value)
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
			return errors.New("amount is not a whole number of the smallest unit of money")
		}
		p.Amount = n
	default:
		return fmt.Errorf("%q is not a member of a payment", member)
	}
	return nil
}

// decodePayment accepts exactly one object with order_id, payment_id and amount.
func decodePayment(data []byte) (Payment, error) {
	p := Payment{Amount: -1}
	if err := decodeObject(data, p.set); err != nil {
		return p, err
	}
	switch {
	case !ValidID(p.Order):
		return p, errors.New("order_id is not the id of an order")
	case len(p.ID) > mostPaymentID || !ValidKey(p.ID):
		return p, fmt.Errorf("payment_id is not 1 to %d printable ASCII characters", mostPaymentID)
	case p.Amount < 0:
		return p, errors.New("amount is missing")
	}
	return p, nil
}

func (h *Handler) pay(w http.ResponseWriter, r *http.Request) {
	p, err := h.readPayment(w, r)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	traced, step := h.service.tracing.request(r, "pay", paymentsRoute)
	ctx, cancel := context.WithTimeout(traced, h.config.Timeout)
	defer cancel()
	row, err := h.service.Pay(ctx, p)
	status := http.StatusOK
	if err != nil {
		status = AsProblem(err).Status
	}
	step.answered(p.Order, status)
	if err != nil {
		h.problem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(row.View()) // whoever is gone sends it again
}

// readPayment answers whoever cannot sign, too often, with rate-limited: payments that
// are signed come from few places, as often as buyers pay, and have no limit.
func (h *Handler) readPayment(w http.ResponseWriter, r *http.Request) (Payment, error) {
	body, err := h.signedBody(w, r)
	if err != nil {
		if limited := h.config.Funnel.knock(r); limited != nil {
			h.service.metrics.turnedAway(limited)
			err = limited
		}
		return Payment{}, err
	}
	p, err := decodePayment(body)
	if err != nil {
		return Payment{}, NewProblem(CodeInvalid, `Send {"order_id":"…","payment_id":"…","amount":100}: %v.`, err)
	}
	return p, nil
}

func (h *Handler) signedBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readBody(w, r, nil)
	if err != nil {
		return nil, err
	}
	if err := h.signedPayment(r, body); err != nil {
		p := NewProblem(CodeBadSignature, "%s: %v.", signatureHeader, err)
		p.Header = map[string]string{"WWW-Authenticate": signatureHeader}
		return nil, p
	}
	return body, nil
}

func (h *Handler) signedPayment(r *http.Request, body []byte) error {
	given := r.Header.Values(signatureHeader)
	switch {
	case len(h.config.PaymentSecrets) == 0:
		return errors.New("this node has no payment.secrets and believes nobody; an operator has to set them")
	case len(given) != 1:
		return errors.New("it is to be given once")
	}
	return checkSignature(given[0], body, h.config.PaymentSecrets, time.Now())
}

// describePayments serves the route by hand, since the bytes that came are signed.
func (h *Handler) describePayments(api huma.API) {
	h.mux.HandleFunc("POST "+paymentsRoute, h.pay)
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: (&Problem{}).Schema(nil)}}
	responses := map[string]*huma.Response{"200": {
		Description: "The order: paid, or expired with replaced_by or refund",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[OrderView](), true, "")}},
	}}
	for _, status := range []int{400, 401, 404, 409, 413, 415, 429, 503} {
		responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: problem}
	}
	zero := 0.0
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "take-payment", Method: http.MethodPost, Path: paymentsRoute,
		Summary:    "Tell that an order was paid; repeats change nothing",
		Parameters: []*huma.Param{{Name: signatureHeader, In: "header", Required: true, Schema: text("t=<unix>,v1=<hex HMAC-SHA256 of t, a dot and the body>")}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"order_id", "payment_id", "amount"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"order_id": {Type: huma.TypeString, Format: "uuid"}, "payment_id": text("the same for every repeat"),
				"amount": {Type: huma.TypeInteger, Minimum: &zero, Description: "in the smallest unit of money"},
			},
		}}}},
		Responses: responses,
	})
}
