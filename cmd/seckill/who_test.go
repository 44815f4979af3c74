package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// asked is an answer to a request of a test.
type asked struct {
	status int
	header http.Header
	body   string
}

func (a asked) code() string {
	var p struct{ Type string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Type[strings.LastIndex(p.Type, "/")+1:]
}

// ask sends one request, with headers given as name and value in turn.
func ask(t *testing.T, client *http.Client, method, url, body string, headers ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	if client == nil {
		client = &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{resp.StatusCode, resp.Header, string(data)}
}

// adminRoutes are the operators' routes that the service itself says it has.
func adminRoutes(t *testing.T, s *served) map[string][]string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(ask(t, nil, http.MethodGet, "http://"+s.admin+"/openapi.json", "").body), &document); err != nil {
		t.Fatal(err)
	}
	routes := map[string][]string{}
	for path, methods := range document.Paths {
		if strings.HasPrefix(path, "/admin/") {
			for method := range methods {
				routes[path] = append(routes[path], strings.ToUpper(method))
			}
		}
	}
	if len(routes) < 8 {
		t.Fatalf("only %d operators' routes: %v", len(routes), routes)
	}
	return routes
}

// Every operators' route refuses who has no token, and whoever may only read where
// something would change.
func TestAdminTokens(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token,other-token", "SECKILL_ADMIN_READ_TOKENS=eye:eye-token")
	s := i.serve("--roles", "api")
	const body = `{"title":"t","skus":[{"sku":"s1","total":1}]}`
	fill := strings.NewReplacer("{activity}", "a1", "{sku}", "s1", "{id}", "01999999-0000-7000-8000-000000000001")
	for path, methods := range adminRoutes(t, s) {
		url := "http://" + s.admin + fill.Replace(path)
		for _, method := range methods {
			for _, wrong := range []string{
				"", "Bearer", "Bearer ", "Bearer eye", "Bearer eye:eye-token", "Bearer eye-tokeN", "Basic eye-token", "Bearer :", "eye-token",
			} {
				got := ask(t, nil, method, url, body, "Authorization", wrong, "Content-Type", "application/json")
				if got.status != http.StatusUnauthorized || got.code() != "unauthenticated" || got.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s with %q: %d %s", method, path, wrong, got.status, got.code())
				}
			}
			got := ask(t, nil, method, url, body, "Authorization", "Bearer eye-token", "Content-Type", "application/json")
			if changes := method != http.MethodGet; changes != (got.status == http.StatusForbidden && got.code() == "forbidden") {
				t.Errorf("%s %s with a token that may read: %d %s", method, path, got.status, got.code())
			}
			if got.status == http.StatusUnauthorized {
				t.Errorf("%s %s: a token that may read is not known", method, path)
			}
		}
	}
	if n := i.query(`select count(*)::text from activities`); n != "0" {
		t.Errorf("the refused requests made %s activities", n)
	}
	for token, who := range map[string]string{"ann-token": "admin API (ann)", "other-token": "admin API"} {
		got := ask(t, nil, http.MethodPut, "http://"+s.admin+"/admin/v1/activities/"+token, body, "Authorization", "bearer "+token, "Content-Type", "application/json")
		if got.status != http.StatusCreated {
			t.Errorf("PUT with %s: %d %s", token, got.status, got.body)
		}
		if actor := i.query(`select actor from activity_log where subject = $1`, token); actor != who {
			t.Errorf("the activity log names %q, want %q", actor, who)
		}
	}
}

// No secret of the configuration or of a request comes out anywhere.
func TestNoSecretComesOut(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	secrets := []string{"hush-admin", "hush-ann", "hush-eye", "hush-jwt-secret-of-32-bytes-or-more", "hush-token", "hush-wrong"}
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKEN="+secrets[0], "SECKILL_ADMIN_TOKENS=ann:"+secrets[1], "SECKILL_ADMIN_READ_TOKENS=eye:"+secrets[2],
		"SECKILL_AUTH_MODE=jwt", "SECKILL_AUTH_JWT_SECRET="+secrets[3])
	s := i.serve()
	good, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Minute).Unix()}).SignedString([]byte(secrets[3]))
	if err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, good, good[strings.LastIndex(good, ".")+1:])
	var out strings.Builder
	for _, token := range append([]string{"a.b.c"}, secrets...) {
		for _, path := range []string{s.admin + "/admin/v1/locks", s.admin + "/admin/v1/activities/a", s.http + "/v1/activities/a/orders"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
				got := ask(t, nil, method, "http://"+path, `{"sku":"s1"}`, "Authorization", "Bearer "+token, "Content-Type", "application/json", "X-User-ID", "hush-token")
				out.WriteString(got.body)
			}
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/openapi.json"} {
		out.WriteString(ask(t, nil, http.MethodGet, "http://"+s.admin+path, "").body)
	}
	s.stop()
	out.WriteString(s.stderr.String())
	for _, command := range [][]string{{"config", "print", "--origin"}, {"doctor"}, {"audit"}, {"activity", "list"}} {
		got := runWith(t, i.environ, command...)
		out.WriteString(got.stdout + got.stderr)
	}
	for _, secret := range secrets {
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("%s comes out: …%.200s", secret, out.String()[max(0, at-100):])
		}
	}
}

// A page of another origin may call the buyers' routes if it is listed, and every
// answer tells browsers what not to do with it.
func TestOriginsAndHeaders(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	closed := i.serve("--roles", "api")
	i.environ = append(i.environ, "SECKILL_CORS_ORIGINS=https://shop.example")
	s := i.serve("--roles", "api")
	preflight := func(s *served, origin string) asked {
		return ask(t, nil, http.MethodOptions, "http://"+s.http+"/v1/activities/a/orders", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
	}
	if got := preflight(s, "https://shop.example"); got.header.Get("Access-Control-Allow-Origin") != "https://shop.example" || got.header.Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("a listed origin: %d %v", got.status, got.header)
	}
	for name, got := range map[string]asked{"another origin": preflight(s, "https://evil.example"), "without the setting": preflight(closed, "https://shop.example")} {
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is let in: %v", name, got.header)
		}
	}
	for _, url := range []string{s.http + "/v1/activities/a", s.http + "/none", s.admin + "/admin/v1/locks", s.admin + "/healthz"} {
		h := ask(t, nil, http.MethodGet, "http://"+url, "").header
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", url, h)
		}
	}
}
