package admission

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// What decodes as an order means the same to a strict reader of JSON.
func FuzzOrderBody(f *testing.F) {
	for _, seed := range []string{`{"sku":"s1"}`, `{"sku":"s1","quantity":2}`, `{"quantity":1e3}`, `{"sku":"s1","sku":"s2"}`, "{\"sku\":\"\xff\"}", `{"s\u006bu":"s1"} x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := decodeOrder(data)
		if err != nil {
			return
		}
		if !ValidName(body.SKU) || body.Quantity < 1 || body.Quantity > MaxQuantity {
			t.Errorf("%q became %+v", data, body)
		}
		var plain struct {
			SKU      string `json:"sku"`
			Quantity *int64 `json:"quantity"`
		}
		if err := json.Unmarshal(data, &plain, json.RejectUnknownMembers(true)); err != nil || plain.SKU != body.SKU || plain.Quantity != nil && *plain.Quantity != body.Quantity {
			t.Errorf("%q became %+v here and %+v, %v elsewhere", data, body, plain, err)
		}
	})
}

// Whoever a request is taken for has a name that may be one.
func FuzzIdentity(f *testing.F) {
	for _, seed := range [][3]string{{"ann", "Bearer a.b.c", "k"}, {"", "", ""}, {"a\u202e", "bearer eyJhbGciOiJub25lIn0.e30.", "k\x00"}, {"ü", "Basic YTpi", "k k"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	byToken := JWTIdentity(JWTConfig{Secret: []byte("secret of a fuzz test")})
	byHeader := HeaderIdentity(nil)
	f.Fuzz(func(t *testing.T, user, authorization, key string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header["X-User-Id"], r.Header["Authorization"] = []string{user}, []string{authorization}
		if got, err := byToken(r); err == nil {
			t.Errorf("an unsigned %q made a buyer %q", authorization, got)
		}
		if got, err := byHeader(r); err == nil {
			t.Errorf("from nobody's proxy came a buyer %q", got)
		}
		if ValidUser(user) && (len(user) > 128 || !utf8.ValidString(user) || strings.ContainsAny(user, "\x00\r\n")) {
			t.Errorf("%q may be a buyer", user)
		}
		if ValidKey(key) && (len(key) == 0 || len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' })) {
			t.Errorf("%q may be a key", key)
		}
	})
}

// No ticket but a signed one is worth anything.
func FuzzTicket(f *testing.F) {
	signed, err := Ticket{Buyer: "ann", Activity: "a1", From: time.Unix(1, 0), Until: time.Unix(1<<33, 0), Weight: 3}.Sign([]byte("a secret of a fuzz test"))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{signed, "", "a.b.c", signed + "x", "eyJhbGciOiJub25lIiwidHlwIjoic2Vja2lsbC10aWNrZXQrand0In0.e30."} {
		f.Add(seed)
	}
	reader := newTicketReader([][]byte{[]byte("a secret of a fuzz test")}, nil)
	f.Fuzz(func(t *testing.T, text string) {
		weight, err := reader.read([]string{text}, "ann", "a1", time.Now())
		// The last character of the signature has two bits that mean nothing.
		if err == nil && (weight != 3 || !strings.HasPrefix(text, signed[:len(signed)-1])) {
			t.Errorf("%q is worth %d", text, weight)
		}
	})
}

// A key set or a deny list from anywhere is taken or refused, and nothing else.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, `{"keys":[{"kty":"RSA","n":"AA","e":"AQAB"}]}`, "buyer ann\naddress ::1/64", "address x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if keys, err := parseKeys(data); err == nil && len(keys) == 0 {
			t.Error("an empty key set was taken")
		}
		if list, err := parseDeny(string(data)); err == nil {
			for user := range list.buyers {
				if !ValidUser(user) {
					t.Errorf("%q is denied", user)
				}
			}
		}
	})
}

// A message of the log that decodes holds orders that can be settled.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(`{"v":1,"batch":"b","epoch":1,"activity":"a","orders":[{"id":"01999999-0000-7000-8000-000000000001","user":"u","sku":"s1","quantity":1,"at":"2026-12-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"orders":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBatch(data)
		if err != nil {
			return
		}
		for _, o := range b.Orders {
			if o.Quantity < 1 || !ValidUser(o.User) {
				t.Errorf("%q became the order %+v", data, o)
			}
		}
	})
}

// Whatever comes as a notice names orders, and no more of them than its bytes may.
func FuzzNotice(f *testing.F) {
	id := uuid.MustParse("01999999-0000-7000-8000-000000000001")
	for _, seed := range [][]byte{nil, id[:], append(id[:], 1, 2, 3), id[:15]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ids := readNotice(data)
		if len(ids) != len(data)/16 {
			t.Errorf("%d orders in %d bytes", len(ids), len(data))
		}
		for _, one := range ids {
			if !ValidID(one) {
				t.Errorf("%q is no order", one)
			}
		}
	})
}
