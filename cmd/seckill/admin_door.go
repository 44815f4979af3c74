package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/admission"
	"seckill/consumer"
)

// door lets operators in: by their tokens, or by the cookie of a session that began
// with one. Without a token nobody is let in.
type door struct {
	tokens   []adminToken
	sums     [][sha256.Size]byte // of the tokens, in their order
	wrong    *attempts
	sessions *knownCookies
	refused  *prometheus.CounterVec
}

func newDoor(tokens []adminToken) *door {
	d := &door{
		tokens: tokens, wrong: newAttempts(), sessions: newKnownCookies(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_admin_refused_total", Help: "Requests to the operators' routes that were turned away, by the code of the answer.",
		}, []string{"code"}),
	}
	for _, code := range []admission.Code{admission.CodeUnauthenticated, admission.CodeForbidden, admission.CodeRateLimited} {
		d.refused.WithLabelValues(string(code))
	}
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

// who finds out who is asking, or why nobody is let in. A bearer token counts before a
// cookie. What is wrong is counted against its address.
func (d *door) who(r *http.Request, now time.Time) (caller, *admission.Problem) {
	given, known, who := r.Header.Get("Authorization"), false, caller{}
	over := d.wrong.over(r.RemoteAddr, now)
	if given != "" {
		who, known = d.bearer(given)
	} else if cookie, err := r.Cookie(sessionCookie); err == nil {
		given = cookie.Value
		who, known = d.cookie(given, now)
		over = over && !d.sessions.has(given)
	}
	switch {
	case given == "":
		return caller{}, d.unknown()
	case over:
		return caller{}, tooMany()
	case !known:
		d.wrong.wrong(r.RemoteAddr, given, now)
		return caller{}, d.unknown()
	}
	if who.session != nil {
		d.sessions.add(given)
	}
	return who, nil
}

func (d *door) bearer(authorization string) (caller, bool) {
	scheme, given, _ := strings.Cut(authorization, " ")
	token, known := d.find(given)
	return caller{name: token.name, readOnly: token.readOnly}, known && strings.EqualFold(scheme, "Bearer")
}

func (d *door) cookie(value string, now time.Time) (caller, bool) {
	s, known := d.session(value, now)
	return caller{name: s.token.name, readOnly: s.token.readOnly, session: &s}, known
}

// harmless are the routes that change nothing of a sale though their method says so: who
// may only read may leave, and may see whether the books agree.
var harmless = map[string]bool{endSession: true, beginAudit: true}

// guard stands before every route but the open ones. A token that may only read is
// refused by all methods but GET and HEAD, but for what is harmless; a browser, which
// sends its cookie by itself, has to show that the page it runs has read the answer to
// the login.
func (d *door) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, no := d.who(r, time.Now())
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		switch {
		case no != nil:
		case changes && who.session != nil && !who.session.meant(r):
			no = admission.NewProblem(admission.CodeForbidden, "The header %s is not that of this session; ask for it with GET %s.", csrfHeader, sessionPath)
		case changes && who.readOnly && !harmless[r.Pattern]:
			no = admission.NewProblem(admission.CodeForbidden, "This token may only read (SECKILL_ADMIN_READ_TOKENS of this process).")
		}
		if no != nil {
			d.refuse(no).Write(w)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	}
}

// refuse counts what is turned away.
func (d *door) refuse(p *admission.Problem) *admission.Problem {
	d.refused.WithLabelValues(string(p.Code)).Inc()
	return p
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
