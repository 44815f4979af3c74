package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// operators is the admin address of an installation in this process, with the list of
// all that was put on its mux.
type operators struct {
	t        *testing.T
	url      string
	patterns []string
	door     *door
}

// testFrom is the header that says where a request of a test comes from.
const testFrom = "Test-From"

// operators serves the admin address until the test ends.
func (i *installed) operators() *operators {
	i.t.Helper()
	c, err := readConfig(sources{environ: func() []string { return i.environ }})
	must(i.t, err)
	s, err := openStores(i.t.Context(), c)
	must(i.t, err)
	must(i.t, s.join(i.t.Context(), c))
	n := &node{config: c, stores: s, registry: newRegistry(), logger: discard, instance: "test"}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	n.startConsole(ctx, &work)
	mux := n.adminRoutes()
	handler := mux.handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(testFrom); from != "" { // elsewhere than on this machine
			r.RemoteAddr = from
		}
		handler.ServeHTTP(w, r)
	}))
	i.t.Cleanup(func() { stop(); work.Wait(); server.Close(); s.close() })
	return &operators{t: i.t, url: server.URL, patterns: mux.patterns, door: mux.door}
}

// ask sends a JSON request, with headers given as name and value in turn.
func (o *operators) ask(method, path, body string, headers ...string) asked {
	o.t.Helper()
	return ask(o.t, nil, method, o.url+path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// browser is a logged-in console.
type browser struct {
	*operators
	cookie, csrf string
}

func (o *operators) login(token string) browser {
	o.t.Helper()
	got := o.ask(http.MethodPost, "/admin/v1/session", `{"token":"`+token+`"}`)
	var s sessionView
	if err := json.Unmarshal([]byte(got.body), &s); err != nil || got.status != http.StatusOK {
		o.t.Fatalf("login: %d %s", got.status, got.body)
	}
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	return browser{o, cookie, s.CSRF}
}

// does sends a request as the console does.
func (b browser) does(method, path, body string) asked {
	b.t.Helper()
	return b.ask(method, path, body, "Cookie", b.cookie, "Seckill-CSRF", b.csrf)
}

// withoutToken are the routes that may answer to anybody. A route that is added is
// not among them.
var withoutToken = []string{
	"GET /console", "GET /console/", "GET /healthz", "GET /metrics", "GET /openapi-3.0.json", "GET /openapi-3.0.yaml",
	"GET /openapi.json", "GET /openapi.yaml", "GET /readyz", "POST /admin/v1/session",
}

// guarded are all routes of the mux that must not be open, as method and path.
func (o *operators) guarded() (routes [][2]string) {
	o.t.Helper()
	fill := strings.NewReplacer(
		"{activity}", "a1", "{sku}", "s1", "{id}", "01999999-0000-7000-8000-000000000001",
		"{run}", "01999999-0000-7000-8000-000000000001", "{$}", "", "{profile}", "heap",
	)
	var open []string
	for _, pattern := range o.patterns {
		method, path, ok := strings.Cut(pattern, " ")
		switch {
		case !ok:
			o.t.Errorf("%s is on the mux for every method: name those that it has", pattern)
		case slices.Contains(withoutToken, pattern):
			open = append(open, pattern)
		default:
			routes = append(routes, [2]string{method, fill.Replace(path)})
		}
	}
	if len(routes) < 12 || len(open) != len(withoutToken) || len(openRoutes) != len(withoutToken) {
		o.t.Fatalf("%d guarded routes; open: %v, of %v", len(routes), open, withoutToken)
	}
	return routes
}

// Every route that is on the mux refuses who has no token, and whoever may only read
// where something would change; the document names every operators' route.
func TestAdminTokens(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token,other-token", "SECKILL_ADMIN_READ_TOKENS=eye:eye-token")
	o := i.operators()
	const body = `{"title":"t","skus":[{"sku":"s1","total":1}]}`
	rows := func() string {
		return i.query(`select (select count(*) from activities) + (select count(*) from activity_log) + (select count(*) from replays) || ''`)
	}
	before := rows()
	eye := o.login("eye-token")
	for n, route := range o.guarded() {
		method, path := route[0], route[1]
		for at, wrong := range []string{
			"", "Bearer", "Bearer ", "Bearer eye", "Bearer eye:eye-token", "Bearer eye-tokeN", "Basic eye-token", "Bearer :", "eye-token",
		} {
			got := o.ask(method, path, body, "Authorization", wrong, testFrom, fmt.Sprintf("198.51.%d.%d:4", n, at))
			if got.status != http.StatusUnauthorized || got.code() != "unauthenticated" || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %q: %d %s", method, path, wrong, got.status, got.code())
			}
		}
		if strings.HasSuffix(path, "/live") || path == "/admin/v1/session" {
			continue // a stream does not end; leaving is for everybody
		}
		for by, got := range map[string]asked{"token": o.ask(method, path, body, "Authorization", "Bearer eye-token"), "session": eye.does(method, path, body)} {
			profile := strings.HasPrefix(path, "/debug/") // it changes nothing, and costs
			audit := path == auditsPath                   // it changes nothing, whatever its method
			if changes := method != http.MethodGet && !audit || profile; changes != (got.status == http.StatusForbidden && got.code() == "forbidden") {
				t.Errorf("%s %s with a %s that may read: %d %s", method, path, by, got.status, got.code())
			}
			if got.status == http.StatusUnauthorized {
				t.Errorf("%s %s: a %s that may read is not known", method, path, by)
			}
		}
	}
	if n := rows(); n != before {
		t.Errorf("there were %s rows, and after the refused requests %s", before, n)
	}
	for token, who := range map[string]string{"ann-token": "admin API (ann)", "other-token": "admin API"} {
		got := o.ask(http.MethodPut, "/admin/v1/activities/"+token, body, "Authorization", "bearer "+token)
		if got.status != http.StatusCreated {
			t.Errorf("PUT with %s: %d %s", token, got.status, got.body)
		}
		if actor := i.query(`select actor from activity_log where subject = $1`, token); actor != who {
			t.Errorf("the activity log names %q, want %q", actor, who)
		}
	}
	o.documented()
}

// documented compares the operators' routes of the mux with those of the document.
func (o *operators) documented() {
	o.t.Helper()
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(o.ask(http.MethodGet, "/openapi.json", "").body), &document); err != nil {
		o.t.Fatal(err)
	}
	for _, pattern := range o.patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, "/admin/") && document.Paths[path][strings.ToLower(method)] == nil {
			o.t.Errorf("%s is not in the document", pattern)
		}
	}
}

// A session is kept from scripts and other sites, changes nothing without its CSRF
// token, names the console in the activity log, and ends.
func TestConsoleSession(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token,bob:bob-token")
	o := i.operators()
	got := o.ask(http.MethodPost, "/admin/v1/session", `{"token":"ann-token"}`)
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(got.header.Get("Set-Cookie"), want) {
			t.Errorf("the cookie is without %s: %s", want, got.header.Get("Set-Cookie"))
		}
	}
	ann, bob := o.login("ann-token"), o.login("bob-token")
	const put, body = "/admin/v1/activities/a1", `{"title":"t","skus":[{"sku":"s1","total":1}]}`
	for name, headers := range map[string][]string{
		"no token":            {"Cookie", ann.cookie},
		"another's":           {"Cookie", ann.cookie, "Seckill-CSRF", bob.csrf},
		"another's cookie":    {"Cookie", bob.cookie, "Seckill-CSRF", ann.csrf},
		"of another site":     {"Cookie", ann.cookie, "Seckill-CSRF", ann.csrf, "Sec-Fetch-Site", "cross-site"},
		"of another origin":   {"Cookie", ann.cookie, "Seckill-CSRF", ann.csrf, "Origin", "https://evil.example"},
		"a page's own bearer": {"Authorization", "Bearer ann-token", "Sec-Fetch-Site", "same-site"},
	} {
		if got := o.ask(http.MethodPut, put, body, headers...); got.status != http.StatusForbidden && got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := o.ask(http.MethodPost, "/admin/v1/session", `{"token":"ann-token"}`, "Sec-Fetch-Site", "cross-site"); got.status != http.StatusForbidden {
		t.Errorf("a login that another site sends: %d", got.status)
	}
	if got := ann.does(http.MethodPut, put, body); got.status != http.StatusCreated {
		t.Fatalf("PUT by the console: %d %s", got.status, got.body)
	}
	if got := ann.does(http.MethodPost, put+"/close", `{"reason":"a try"}`); got.status != http.StatusOK {
		t.Fatalf("close by the console: %d %s", got.status, got.body)
	}
	var log struct {
		Entries []struct{ Actor, Action, Subject, Reason string }
		Next    int64
	}
	page := ann.does(http.MethodGet, "/admin/v1/activity-log?subject=a1&limit=1", "")
	if err := json.Unmarshal([]byte(page.body), &log); err != nil || len(log.Entries) != 1 || log.Next == 0 ||
		log.Entries[0].Actor != "console (ann)" || log.Entries[0].Reason != "a try" {
		t.Errorf("the activity log: %s", page.body)
	}
	if got := ann.does(http.MethodGet, "/admin/v1/session", ""); got.status != http.StatusOK || !strings.Contains(got.body, `"operator":"ann"`) {
		t.Errorf("the session: %d %s", got.status, got.body)
	}
	if got := ann.does(http.MethodDelete, "/admin/v1/session", ""); got.status != http.StatusNoContent || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logout: %d %s", got.status, got.header.Get("Set-Cookie"))
	}
	for name, cookie := range map[string]string{"": "seckill_session=", "no token": "seckill_session=a.b.c", "a changed one": ann.cookie + "x", "cut": ann.cookie[:len(ann.cookie)-4]} {
		if got := o.ask(http.MethodGet, "/admin/v1/session", "", "Cookie", cookie); got.status != http.StatusUnauthorized {
			t.Errorf("a cookie that is %s: %d", name, got.status)
		}
	}
}

// A session ends with its time, and with its token.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	ann := adminToken{name: "ann", token: "ann-token"}
	d, now := newDoor([]adminToken{{token: "other"}, ann}), time.Now()
	_, value, err := beginSession(ann, now)
	must(t, err)
	if s, ok := d.session(value, now.Add(sessionLasts-2*time.Second)); !ok || s.token.name != "ann" {
		t.Errorf("before its end: %v %v", s, ok)
	}
	if _, ok := d.session(value, now.Add(sessionLasts+time.Second)); ok {
		t.Error("a session outlives its time")
	}
	if _, ok := newDoor([]adminToken{{name: "ann", token: "new"}}).session(value, now); ok {
		t.Error("a session outlives its token")
	}
}

// Tokens cannot be guessed fast, at the login, as bearer tokens or in forged cookies: after
// some wrong ones even the right one has to wait. That holds for one address, and for no
// session that is known.
func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token")
	o := i.operators()
	_, forged, err := beginSession(adminToken{token: "guess"}, time.Now())
	must(t, err)
	forges := func(from, token string) asked {
		return o.ask(http.MethodGet, sessionPath, "", testFrom, from, "Cookie", sessionCookie+"="+forged[:len(forged)-1]+token[len(token)-1:])
	}
	for k, at := range []struct {
		name       string
		wrong, now func(from, token string) asked
	}{
		{"login", o.logsIn, o.logsIn},
		{"bearer", o.bears, o.bears},
		{"login, then bearer", o.logsIn, o.bears},
		{"bearer, then login", o.bears, o.logsIn},
		{"forged cookies", forges, o.bears},
	} {
		t.Run(at.name, func(t *testing.T) {
			from := fmt.Sprintf("198.51.100.%d:1", k)
			for n := range wrongAtOnce {
				if got := at.wrong(from, fmt.Sprint("guess-", n)); got.status != http.StatusUnauthorized {
					t.Fatalf("wrong token %d: %d %s", n, got.status, got.body)
				}
			}
			for _, token := range []string{"another-guess", "ann-token"} {
				if got := at.now(from, token); got.status != http.StatusTooManyRequests || got.code() != "rate-limited" || got.header.Get("Retry-After") == "" {
					t.Errorf("%s after wrong ones: %d %s", token, got.status, got.body)
				}
			}
			if got := at.now("203.0.113.9:1", "ann-token"); got.status != http.StatusOK {
				t.Errorf("the right token from another address: %d %s", got.status, got.body)
			}
		})
	}
	var counted dto.Metric
	must(t, o.door.refused.WithLabelValues("rate-limited").Write(&counted))
	if n := counted.GetCounter().GetValue(); n != 10 {
		t.Errorf("%v refusals are counted as rate-limited, want 10", n)
	}
}

// logsIn and bears give a token from an address.
func (o *operators) logsIn(from, token string) asked {
	return o.ask(http.MethodPost, sessionPath, `{"token":"`+token+`"}`, testFrom, from)
}

func (o *operators) bears(from, token string) asked {
	return o.ask(http.MethodGet, sessionPath, "", testFrom, from, "Authorization", "Bearer "+token)
}

// Who guesses behind the proxy of an operator does not end the session there, and a
// script with an old token is nobody who guesses.
func TestGuessesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token")
	o := i.operators()
	const proxy = "[2001:db8::7]:1"
	for range 4 * wrongAtOnce {
		if got := o.bears(proxy, "old-token"); got.status != http.StatusUnauthorized {
			t.Fatalf("an old token: %d", got.status)
		}
	}
	if got := o.bears(proxy, "ann-token"); got.status != http.StatusOK {
		t.Errorf("the right token beside a script with an old one: %d %s", got.status, got.body)
	}
	ann := o.login("ann-token")
	for n := range 2 * wrongAtOnce {
		o.bears("[2001:db8::8]:1", fmt.Sprint("guess-", n))
	}
	if got := o.bears(proxy, "ann-token"); got.status != http.StatusTooManyRequests {
		t.Errorf("a token from the network of who guesses: %d", got.status)
	}
	if got := o.ask(http.MethodGet, sessionPath, "", "Cookie", ann.cookie, testFrom, proxy); got.status != http.StatusOK {
		t.Errorf("a session that was known before: %d %s", got.status, got.body)
	}
	_, unknown, err := beginSession(adminToken{name: "ann", token: "ann-token"}, time.Now())
	must(t, err)
	if got := o.ask(http.MethodGet, sessionPath, "", "Cookie", sessionCookie+"="+unknown, testFrom, proxy); got.status != http.StatusTooManyRequests {
		t.Errorf("a cookie that says whether a token was guessed: %d", got.status)
	}
}

// However many addresses guess, a bounded number is remembered.
func TestGuessersAreBounded(t *testing.T) {
	t.Parallel()
	a, now := newAttempts(), time.Now()
	for n := range 2 * rememberedAddresses {
		a.wrong(fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&255, n&255), "guess", now)
	}
	if n := a.of.Len(); n != rememberedAddresses {
		t.Errorf("%d addresses are remembered, want %d", n, rememberedAddresses)
	}
}

// The console is served from this binary alone, and a place inside it gets its page.
func TestConsoleFiles(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	o := i.operators()
	for path, want := range map[string]int{
		"/console/": 200, "/console/orders": 200, "/console/orders/01999999": 200, "/console/nothing.js": 404, "/console/assets/nothing.css": 404,
	} {
		got := o.ask(http.MethodGet, path, "")
		policy := got.header.Get("Content-Security-Policy")
		if got.status != want || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %d, policy %q", path, got.status, policy)
		}
		if want == 200 && (!strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || strings.Contains(got.body, "<script>") || strings.Contains(got.body, "style=")) {
			t.Errorf("%s: %v %.200s", path, got.header, got.body)
		}
	}
}
