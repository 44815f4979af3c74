package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"seckill/admission"
)

const (
	sessionCookie = "seckill_session"
	sessionPath   = "/admin/v1/session"
	endSession    = "DELETE " + sessionPath
	csrfHeader    = "Seckill-CSRF"
	// sessionLasts is how long somebody stays logged in.
	sessionLasts = 12 * time.Hour
)

// session is a login of the console. It is kept by the browser alone, signed with a key
// made from the operator's token: it holds at every process that has the token, survives
// their restarts, and ends when the token is taken out of the configuration.
type session struct {
	token   adminToken
	csrf    string
	expires time.Time
}

// sessionKey is the key that signs the sessions of a token.
func sessionKey(t adminToken) []byte {
	mac := hmac.New(sha256.New, []byte(t.token))
	mac.Write([]byte("seckill console session"))
	return mac.Sum(nil)
}

// begin makes a session and its cookie's value.
func beginSession(t adminToken, now time.Time) (session, string, error) {
	expires := now.Add(sessionLasts).Truncate(time.Second)
	value, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		ID: uuid.NewString(), ExpiresAt: jwt.NewNumericDate(expires),
	}).SignedString(sessionKey(t))
	return session{token: t, csrf: csrfOf(t, value), expires: expires}, value, err
}

// csrfOf is what a page has to send beside the cookie: it follows from it, and only who
// has the token can make it.
func csrfOf(t adminToken, cookie string) string {
	mac := hmac.New(sha256.New, sessionKey(t))
	mac.Write([]byte("csrf " + cookie))
	return hex.EncodeToString(mac.Sum(nil))
}

// session reads a cookie.
func (d *door) session(cookie string, now time.Time) (session, bool) {
	for _, t := range d.tokens {
		var claims jwt.RegisteredClaims
		_, err := jwt.ParseWithClaims(cookie, &claims, func(*jwt.Token) (any, error) { return sessionKey(t), nil },
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
			jwt.WithTimeFunc(func() time.Time { return now }))
		if err == nil {
			return session{token: t, csrf: csrfOf(t, cookie), expires: claims.ExpiresAt.UTC()}, true
		}
	}
	return session{}, false
}

// meant says whether the request was sent by a page that knows the session, and not by
// one of another origin that only has the browser's cookie sent along.
func (s session) meant(r *http.Request) bool {
	return hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(s.csrf))
}

// sessionAPI is the login of the console.
type sessionAPI struct {
	door *door
}

type loginInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"4096" doc:"an admin token"`
	}
	remote string
	secure *tls.ConnectionState
}

// Resolve implements huma.Resolver.
func (in *loginInput) Resolve(ctx huma.Context) []error {
	in.remote, in.secure = ctx.RemoteAddr(), ctx.TLS()
	return nil
}

type sessionView struct {
	Operator  string    `json:"operator" doc:"name of the token; may be empty"`
	ReadOnly  bool      `json:"read_only"`
	CSRF      string    `json:"csrf" doc:"to be sent as Seckill-CSRF with every request that changes something; empty for a bearer token, which needs none"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

type sessionOutput struct {
	SetCookie string `header:"Set-Cookie"`
	Body      sessionView
}

func (s session) view() sessionView {
	return sessionView{Operator: s.token.name, ReadOnly: s.token.readOnly, CSRF: s.csrf, ExpiresAt: s.expires}
}

// login begins a session. An address that has tried wrong tokens has to wait before it
// may try any: the right one, too, so that a guess says nothing.
func (a *sessionAPI) login(_ context.Context, in *loginInput) (*sessionOutput, error) {
	now := time.Now()
	if a.door.wrong.over(in.remote, now) {
		return nil, a.door.refuse(tooMany())
	}
	token, known := a.door.find(in.Body.Token)
	if !known {
		a.door.wrong.wrong(in.remote, in.Body.Token, now)
		return nil, a.door.refuse(a.door.unknown())
	}
	s, value, err := beginSession(token, now)
	if err != nil {
		return nil, admission.NewProblem(admission.CodeInternal, "The session could not be signed.").Because(err)
	}
	a.door.sessions.add(value)
	return &sessionOutput{SetCookie: cookie(value, in.secure != nil, sessionLasts), Body: s.view()}, nil
}

// cookie is kept from scripts and from requests that other sites make.
func cookie(value string, secure bool, lasts time.Duration) string {
	age := int(lasts.Seconds())
	if age == 0 {
		age = -1
	}
	c := http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
	return c.String()
}

func (a *sessionAPI) get(ctx context.Context, _ *struct{}) (*struct{ Body sessionView }, error) {
	who := callerOf(ctx)
	if who.session == nil {
		return &struct{ Body sessionView }{sessionView{Operator: who.name, ReadOnly: who.readOnly}}, nil
	}
	return &struct{ Body sessionView }{who.session.view()}, nil
}

type logoutOutput struct {
	SetCookie string `header:"Set-Cookie"`
}

func (a *sessionAPI) logout(context.Context, *struct{}) (*logoutOutput, error) {
	return &logoutOutput{SetCookie: cookie("", false, 0)}, nil
}

func (a *sessionAPI) register(api huma.API) {
	operation := func(id, method, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: sessionPath, Summary: summary, Errors: errors}
	}
	huma.Register(api, operation("login", http.MethodPost, "Begin a session of the console with an admin token",
		http.StatusBadRequest, http.StatusUnauthorized), a.login)
	huma.Register(api, operation("show-session", http.MethodGet, "Who is asking, and what may they do", http.StatusUnauthorized), a.get)
	huma.Register(api, operation("logout", http.MethodDelete, "End the session in this browser", http.StatusUnauthorized), a.logout)
}
