package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// door lets operators in: by their tokens, or by the cookie of a session that began
// with one. Without a token nobody is let in.
type door struct {
	tokens []adminToken
	sums   [][sha256.Size]byte // of the tokens, in their order
	wrong  *attempts
}

func newDoor(tokens []adminToken) *door {
	d := &door{tokens: tokens, wrong: newAttempts()}
	for _, t := range tokens {
		d.sums = append(d.sums, sha256.Sum256([]byte(t.token)))
	}
	return d
}

// find looks a token up. It compares with every one, each in constant time, so that the
// time says nothing about any of them.
func (d *door) find(given string) (adminToken, bool) {
	sum := sha256.Sum256([]byte(given))
	found := -1
	for i := range d.sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(d.sums[i][:], sum[:]), i, found)
	}
	if found < 0 {
		return adminToken{}, false
	}
	return d.tokens[found], true
}

// caller is who is behind a request.
type caller struct {
	name     string // of the token; may be empty
	readOnly bool
	session  *session // nil: by a bearer token
}

// who finds out who is asking. A bearer token counts before a cookie.
func (d *door) who(r *http.Request) (caller, bool) {
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		scheme, given, _ := strings.Cut(authorization, " ")
		token, known := d.find(given)
		return caller{name: token.name, readOnly: token.readOnly}, known && strings.EqualFold(scheme, "Bearer")
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return caller{}, false
	}
	s, known := d.session(cookie.Value, time.Now())
	if !known {
		return caller{}, false
	}
	return caller{name: s.token.name, readOnly: s.token.readOnly, session: &s}, true
}

// guard stands before every route but the open ones. A token that may only read is
// refused by all methods but GET and HEAD; a browser, which sends its cookie by itself,
// has to show that the page it runs has read the answer to the login.
func (d *door) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, known := d.who(r)
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		switch {
		case !known:
			d.unknown().Write(w)
		case changes && who.session != nil && !who.session.meant(r):
			admission.NewProblem(admission.CodeForbidden, "The header %s is not that of this session; ask for it with GET %s.", csrfHeader, sessionPath).Write(w)
		case changes && who.readOnly && r.Pattern != endSession:
			admission.NewProblem(admission.CodeForbidden, "This token may only read (SECKILL_ADMIN_READ_TOKENS of this process).").Write(w)
		default:
			next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
		}
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

type callerKey struct{}

// callerOf is who is behind the request that has this context.
func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// actor is how the activity log names a caller.
func (c caller) actor() string {
	way := "admin API"
	if c.session != nil {
		way = "console"
	}
	if c.name == "" {
		return way
	}
	return way + " (" + c.name + ")"
}

// onAdminAPI names who changes something, and why, in the activity log.
func onAdminAPI(ctx context.Context, reason string) context.Context {
	return consumer.OnBehalf(ctx, consumer.Operator{Name: callerOf(ctx).actor(), Reason: strings.TrimSpace(reason)})
}
