package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Code is the last part of a problem's type: the stable name of an answer that is
// not the one asked for.
type Code string

// The codes of this package's answers.
const (
	CodeInvalid         Code = "invalid-request"
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeDenied          Code = "denied"
	CodeTicketRequired  Code = "ticket-required"
	CodeTicketInvalid   Code = "ticket-invalid"
	CodeRateLimited     Code = "rate-limited"
	CodeNotFound        Code = "not-found"
	CodeMethod          Code = "method-not-allowed"
	CodeTooLarge        Code = "too-large"
	CodeMediaType       Code = "unsupported-media-type"
	CodeSoldOut         Code = "sold-out"
	CodeLimitReached    Code = "limit-reached"
	CodeNotStarted      Code = "not-started"
	CodeEnded           Code = "ended"
	CodeMismatch        Code = "idempotency-mismatch"
	CodeNotReady        Code = "not-ready"
	CodePaused          Code = "paused"
	CodeOverloaded      Code = "overloaded"
	CodeUnknown         Code = "outcome-unknown"
	CodeUseDelta        Code = "use-delta"
	CodeNotEnough       Code = "not-enough-stock"
	CodeClosed          Code = "closed"
	CodeNotOpen         Code = "not-open"
	CodeTokenMismatch   Code = "token-mismatch"
	CodeNotCancellable  Code = "not-cancellable"
	CodeBadSignature    Code = "bad-signature"
	CodeAmount          Code = "amount-mismatch"
	CodeNotPayable      Code = "not-payable"
	CodeBusy            Code = "busy"
	CodeInternal        Code = "internal"
)

// Problem is an answer that is not the one asked for, as RFC 9457 has it. It is
// an error, so that it travels through the service to the one place that writes it.
type Problem struct {
	Code   Code
	Status int
	Title  string
	Detail string

	Reason     string            // which limit of ours refused, for the counter and the buyer; empty: none
	RetryAfter time.Duration     // 0: do not say
	Location   string            // of an order whose outcome is unknown
	Members    map[string]any    // further members, such as orders or starts_at
	Header     map[string]string // further headers, such as Allow
	Cause      error             // for the log, never shown

	encoded []byte // the body, if it was written beforehand
}

func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", p.Code, p.Detail, p.Cause)
	}
	return fmt.Sprintf("%s: %s", p.Code, p.Detail)
}

func (p *Problem) Unwrap() error { return p.Cause }

var problemKinds = map[Code]struct {
	status int
	title  string
}{
	CodeInvalid:         {http.StatusBadRequest, "The request is not valid"},
	CodeUnauthenticated: {http.StatusUnauthorized, "Who is asking is not known"},
	CodeDenied:          {http.StatusForbidden, "Requests like this are not taken"},
	CodeTicketRequired:  {http.StatusForbidden, "This sale takes tickets"},
	CodeTicketInvalid:   {http.StatusForbidden, "The ticket is not valid"},
	CodeRateLimited:     {http.StatusTooManyRequests, "Too many requests"},
	CodeForbidden:       {http.StatusForbidden, "Who is asking may not do this"},
	CodeNotFound:        {http.StatusNotFound, "There is no such thing"},
	CodeMethod:          {http.StatusMethodNotAllowed, "This method is not for this path"},
	CodeTooLarge:        {http.StatusRequestEntityTooLarge, "The body is too large"},
	CodeMediaType:       {http.StatusUnsupportedMediaType, "The body is not JSON"},
	CodeSoldOut:         {http.StatusConflict, "Sold out"},
	CodeLimitReached:    {http.StatusConflict, "The limit for one buyer is reached"},
	CodeNotStarted:      {http.StatusConflict, "The sale has not started"},
	CodeEnded:           {http.StatusGone, "The sale has ended"},
	CodeMismatch:        {http.StatusUnprocessableEntity, "This key was used for another order"},
	CodeNotReady:        {http.StatusServiceUnavailable, "The sale is not ready"},
	CodePaused:          {http.StatusServiceUnavailable, "The sale is paused"},
	CodeOverloaded:      {http.StatusServiceUnavailable, "Too many are asking"},
	CodeUnknown:         {http.StatusServiceUnavailable, "It is not known yet whether the order was accepted"},
	CodeNotEnough:       {http.StatusConflict, "There are not so many free units"},
	CodeUseDelta:        {http.StatusConflict, "An opened activity changes by deltas"},
	CodeClosed:          {http.StatusConflict, "The activity is closed"},
	CodeNotOpen:         {http.StatusConflict, "The activity is not open"},
	CodeTokenMismatch:   {http.StatusConflict, "The lease is held under another token"},
	CodeNotCancellable:  {http.StatusConflict, "The order cannot be cancelled"},
	CodeBadSignature:    {http.StatusUnauthorized, "The signature does not hold"},
	CodeAmount:          {http.StatusConflict, "The amount is not that of the order"},
	CodeNotPayable:      {http.StatusConflict, "The order cannot be paid"},
	CodeBusy:            {http.StatusConflict, "Something like this is under way"},
	CodeInternal:        {http.StatusInternalServerError, "Something went wrong here"},
}

// NewProblem returns the problem of a code, with the detail formatted.
func NewProblem(code Code, format string, args ...any) *Problem {
	kind := problemKinds[code]
	p := &Problem{Code: code, Status: kind.status, Title: kind.title, Detail: fmt.Sprintf(format, args...)}
	if kind.status == http.StatusServiceUnavailable || code == CodeNotStarted {
		p.RetryAfter = time.Second
	}
	return p
}

// Because adds the cause, which is logged and not shown.
func (p *Problem) Because(err error) *Problem {
	p.Cause = err
	return p
}

// by names the limit that refused.
func (p *Problem) by(reason string) *Problem {
	p.Reason = reason
	return p
}

// AsProblem turns any error into the problem that its answer shall be: the one
// place where errors become HTTP.
func AsProblem(err error) *Problem {
	var p *Problem
	var gate *NotReadyError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrNoActivity):
		return NewProblem(CodeNotFound, "There is no such activity.").Because(err)
	case errors.Is(err, ErrNoOrder):
		return NewProblem(CodeNotFound, "There is no such order of yours.").Because(err)
	case errors.Is(err, ErrNotCancellable):
		return NewProblem(CodeNotCancellable, "The order is paid, or dead already: it can no longer be cancelled here.").Because(err)
	case errors.Is(err, ErrNotPayable):
		return NewProblem(CodeNotPayable, "The order takes no payment, or has another one: %v.", err).Because(err)
	case errors.Is(err, ErrAmount):
		return NewProblem(CodeAmount, "%v; look the order up and pay exactly that.", err).Because(err)
	case errors.As(err, &gate):
		return NewProblem(CodeNotReady, "The sale is being prepared; ask again in a moment.").Because(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return NewProblem(CodeOverloaded, "The answer took too long; ask again in a moment.").Because(err)
	}
	return NewProblem(CodeNotReady, "A part of the system does not answer; ask again in a moment.").Because(err)
}

// Write answers the request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	p.setHeaders(h)
	h.Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	if p.encoded != nil {
		_, _ = w.Write(p.encoded) // the buyer is gone if this fails
		return
	}
	_ = json.NewEncoder(w).Encode(p.body())
}

// ready writes the body beforehand, of a problem that is answered many times and does
// not change any more.
func (p *Problem) ready() *Problem {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(p.body()) // strings and numbers
	p.encoded = b.Bytes()
	return p
}

func (p *Problem) setHeaders(h http.Header) {
	h["Cache-Control"] = []string{"no-store"}
	for name, value := range p.Header {
		h.Set(name, value)
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(jittered(p.RetryAfter)))
	}
	if p.Location != "" {
		h.Set("Location", p.Location)
	}
}

// plainProblem is a problem without further members, which most are: a struct costs a third of a map.
// Its members stand in the order that a map would give them.
type plainProblem struct {
	Detail string `json:"detail"`
	Reason string `json:"reason,omitempty"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	Type   string `json:"type"`
}

func (p *Problem) body() any {
	if len(p.Members) == 0 {
		return plainProblem{p.Detail, p.Reason, p.Status, p.Title, "/problems/" + string(p.Code)}
	}
	body := map[string]any{
		"type": "/problems/" + string(p.Code), "title": p.Title, "status": p.Status, "detail": p.Detail,
	}
	if p.Reason != "" {
		body["reason"] = p.Reason
	}
	for name, value := range p.Members {
		body[name] = value
	}
	return body
}

// mostSpread bounds, in seconds, how much later than need be somebody is told to come
// back: who waits for a start must not miss it.
const mostSpread = 5

// jittered is the wait in whole seconds, spread so that a crowd that was turned
// away together does not come back together.
func jittered(d time.Duration) int {
	seconds := int((d + time.Second - 1) / time.Second)
	return seconds + rand.IntN(min(seconds, mostSpread)+1)
}
