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
