package consumer_test

import (
	"net/http"
	"strings"
	"testing"
)

// hostile are bodies that must be refused with 400 and change nothing.
var hostile = map[string]string{
	"quantity 0":           `{"sku":"s1","quantity":0}`,
	"quantity -1":          `{"sku":"s1","quantity":-1}`,
	"quantity -0":          `{"sku":"s1","quantity":-0}`,
	"quantity 1.5":         `{"sku":"s1","quantity":1.5}`,
	"quantity 1.0":         `{"sku":"s1","quantity":1.0}`,
	"quantity 1e3":         `{"sku":"s1","quantity":1e3}`,
	"quantity text":        `{"sku":"s1","quantity":"1"}`,
	"quantity null":        `{"sku":"s1","quantity":null}`,
	"quantity 01":          `{"sku":"s1","quantity":01}`,
	"quantity +1":          `{"sku":"s1","quantity":+1}`,
	"quantity true":        `{"sku":"s1","quantity":true}`,
	"quantity list":        `{"sku":"s1","quantity":[1]}`,
	"quantity 2^31":        `{"sku":"s1","quantity":2147483648}`,
	"quantity 2^63-1":      `{"sku":"s1","quantity":9223372036854775807}`,
	"quantity 2^63":        `{"sku":"s1","quantity":9223372036854775808}`,
	"quantity over most":   `{"sku":"s1","quantity":1000001}`,
	"quantity twice":       `{"sku":"s1","quantity":1,"quantity":1}`,
	"sku missing":          `{"quantity":1}`,
	"sku twice":            `{"sku":"s1","sku":"s1"}`,
	"sku in capitals":      `{"SKU":"s1"}`,
	"sku null":             `{"sku":null}`,
	"sku number":           `{"sku":1}`,
	"sku empty":            `{"sku":""}`,
	"sku with NUL":         "{\"sku\":\"s1\\u0000\"}",
	"sku with a raw NUL":   "{\"sku\":\"s1\x00\"}",
	"sku with a quote":     `{"sku":"s1\""}`,
	"sku too long":         `{"sku":"` + strings.Repeat("s", 65) + `"}`,
	"sku invalid UTF-8":    "{\"sku\":\"s1\xff\"}",
	"name invalid UTF-8":   "{\"sku\":\"s1\",\"\xff\":1}",
	"unknown name":         `{"sku":"s1","price":0}`,
	"trailing garbage":     `{"sku":"s1"}x`,
	"trailing object":      `{"sku":"s1"}{}`,
	"trailing NUL":         "{\"sku\":\"s1\"}\x00",
	"leading garbage":      `x{"sku":"s1"}`,
	"byte order mark":      "\xef\xbb\xbf{\"sku\":\"s1\"}",
	"comment":              `{"sku":"s1"/**/}`,
	"trailing comma":       `{"sku":"s1",}`,
	"unfinished":           `{"sku":"s1"`,
	"empty":                ``,
	"null":                 `null`,
	"list":                 `[{"sku":"s1"}]`,
	"string":               `"s1"`,
	"deeply nested":        strings.Repeat("[", 2000),
	"huge number":          `{"sku":"s1","quantity":` + strings.Repeat("1", 400) + `}`,
	"escaped name, twice":  `{"sku":"s1","s\u006bu":"s1"}`,
	"surrogate half in it": `{"sku":"s1\ud800"}`,
}

// Whatever is not exactly an order is refused and changes nothing.
func TestCase03HostileInput(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 10))
	s.startWorker(workerOptions{})
	for name, body := range hostile {
		if a := s.post(ask{activity: "a1", user: "u", body: body}); a.status != http.StatusBadRequest || a.code != "invalid-request" {
			t.Errorf("%s: %v, want 400 invalid-request", name, a)
		}
	}
	nobody := func(status int, code string, change func(*http.Request)) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, s.http.URL+"/v1/activities/a1/orders", strings.NewReader(`{"sku":"s1"}`))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-User-ID", "u")
		change(req)
		if a := s.do(req); a.status != status || a.code != code || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v, want %d %s as a problem", a, status, code)
		}
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = []string{value} }
	}
	nobody(http.StatusUnauthorized, "unauthenticated", func(r *http.Request) { r.Header.Del("X-User-ID") })
	nobody(http.StatusUnauthorized, "unauthenticated", func(r *http.Request) { r.Header.Add("X-User-ID", "v") })
	nobody(http.StatusUnauthorized, "unauthenticated", header("X-User-Id", strings.Repeat("u", 129)))
	nobody(http.StatusUnauthorized, "unauthenticated", header("X-User-Id", "u\xff"))
	nobody(http.StatusUnauthorized, "unauthenticated", header("X-User-Id", "u\u202e"))
	nobody(http.StatusUnsupportedMediaType, "unsupported-media-type", header("Content-Type", "text/plain"))
	nobody(http.StatusUnsupportedMediaType, "unsupported-media-type", func(r *http.Request) { r.Header.Del("Content-Type") })
	nobody(http.StatusBadRequest, "invalid-request", header("Idempotency-Key", strings.Repeat("k", 256)))
	nobody(http.StatusBadRequest, "invalid-request", header("Idempotency-Key", "k\xc3\xa9"))
	nobody(http.StatusBadRequest, "invalid-request", header("Idempotency-Key", ""))
	nobody(http.StatusNotFound, "not-found", func(r *http.Request) { r.URL.Path = "/v1/activities/none/orders" })
	nobody(http.StatusNotFound, "not-found", func(r *http.Request) { r.URL.Path = "/v1/activities/a%00/orders" })
	nobody(http.StatusNotFound, "not-found", func(r *http.Request) { r.URL.Path = "/v2" })
	nobody(http.StatusMethodNotAllowed, "method-not-allowed", func(r *http.Request) { r.Method = http.MethodPut })
	large := s.post(ask{activity: "a1", user: "u", body: `{"sku":"s1"}` + strings.Repeat(" ", 5000)})
	unknown := s.post(ask{activity: "a1", user: "u", body: `{"sku":"s2"}`})
	wantCount(t, []answer{large, unknown}, map[string]int{"413 too-large": 1, "404 not-found": 1})

	s.books("a1", nil)
	view, err := s.gate.View(t.Context(), "a1")
	must(t, err)
	if n := queryInt(t, s, `select count(*) from orders`); n != 0 || view.Stock["s1"] != 10 {
		t.Errorf("bad input left %d orders and %d units, want none and 10", n, view.Stock["s1"])
	}
	spaced := s.post(ask{activity: "a1", user: "u", body: " \n{ \"quantity\" : 2 , \"s\\u006bu\" : \"s1\" } \t"})
	wantCount(t, []answer{spaced}, map[string]int{"202": 1})
}
