package admission

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Every error that the OpenAPI layer makes or passes on is a Problem, so that
// there is one shape and one list of codes.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		details := []string{msg}
		for _, err := range errs {
			if err == nil {
				continue
			}
			var p *Problem
			if errors.As(err, &p) {
				return p
			}
			details = append(details, shortly(err))
		}
		return NewProblem(codeOf(status), "%.1000s", strings.Join(details, "; "))
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return huma.NewError(status, msg, errs...)
	}
}

// shortly says what is wrong and where, without repeating what was sent.
func shortly(err error) string {
	var detail *huma.ErrorDetail
	if errors.As(err, &detail) {
		return detail.Message + " (" + detail.Location + ")"
	}
	return err.Error()
}

func codeOf(status int) Code {
	switch status {
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusMethodNotAllowed:
		return CodeMethod
	case http.StatusRequestEntityTooLarge:
		return CodeTooLarge
	case http.StatusUnsupportedMediaType:
		return CodeMediaType
	}
	if status >= http.StatusInternalServerError {
		return CodeInternal
	}
	return CodeInvalid
}

// GetStatus, GetHeaders, ContentType, MarshalJSON and Schema are what the OpenAPI
// layer asks of an error.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the answer.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	p.setHeaders(h)
	return h
}

// ContentType is that of RFC 9457.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// MarshalJSON writes the body.
func (p *Problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.body()) }

// Schema describes the body; members vary with the code.
func (p *Problem) Schema(huma.Registry) *huma.Schema {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	return &huma.Schema{
		Type: huma.TypeObject, Description: "RFC 9457 problem; further members depend on the code",
		AdditionalProperties: true,
		Required:             []string{"type", "title", "status", "detail"},
		Properties: map[string]*huma.Schema{
			"type": text("ends in the code"), "title": text("what kind of answer this is"),
			"status": {Type: huma.TypeInteger}, "detail": text("what to do next"),
		},
	}
}
