package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"seckill/admission"
)

// door lets operators in by their tokens. Without a token nobody is let in.
type door struct {
	tokens []adminToken
	sums   [][sha256.Size]byte // of the tokens, in their order
}

func newDoor(tokens []adminToken) *door {
	d := &door{tokens: tokens}
	for _, t := range tokens {
		d.sums = append(d.sums, sha256.Sum256([]byte(t.token)))
	}
	return d
}

// whose finds the token that was sent. It compares with every one, each in constant
// time, so that the time says nothing about any of them.
func (d *door) whose(authorization string) (adminToken, bool) {
	scheme, given, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(given))
	found := -1
	for i := range d.sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(d.sums[i][:], sum[:]), i, found)
	}
	if found < 0 || !strings.EqualFold(scheme, "Bearer") {
		return adminToken{}, false
	}
	return d.tokens[found], true
}

// guard stands before every operators' route. A token that may only read is refused
// by all methods but GET and HEAD.
func (d *door) guard(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	who, known := d.whose(ctx.Header("Authorization"))
	switch {
	case !known:
		d.unknown().Write(w)
	case who.readOnly && r.Method != http.MethodGet && r.Method != http.MethodHead:
		admission.NewProblem(admission.CodeForbidden, "This token may only read (SECKILL_ADMIN_READ_TOKENS of this process).").Write(w)
	default:
		next(huma.WithValue(ctx, operatorKey{}, who.name))
	}
}

func (d *door) unknown() *admission.Problem {
	advice := "Send an admin token as a bearer token (SECKILL_ADMIN_TOKEN of this process)."
	if len(d.tokens) == 0 {
		advice = "This process has no admin token and lets no operator in; start it with SECKILL_ADMIN_TOKEN."
	}
	p := admission.NewProblem(admission.CodeUnauthenticated, "%s", advice)
	p.Header = map[string]string{"WWW-Authenticate": `Bearer realm="seckill admin"`}
	return p
}

type operatorKey struct{}

// operatorOf is the name of the operator whose request has this context; empty if
// the token has none.
func operatorOf(ctx context.Context) string {
	name, _ := ctx.Value(operatorKey{}).(string)
	return name
}
