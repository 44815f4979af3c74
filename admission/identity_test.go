package admission

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// issuer signs tokens of all kinds.
type issuer struct {
	t       *testing.T
	rsa     *rsa.PrivateKey
	ecdsa   *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
	secret  []byte
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, secret: []byte("a secret of thirty-two bytes, yes")}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, minRSABits); err != nil {
		t.Fatal(err)
	}
	if i.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, i.ed25519, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return i
}

// jwk is the public part of a key as it stands in a key set.
func jwk(t *testing.T, kid string, key crypto.PublicKey, change func(*jwkset.JWKMarshal)) any {
	t.Helper()
	made, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
	if err != nil {
		t.Fatal(err)
	}
	m := made.Marshal()
	if change != nil {
		change(&m)
	}
	return m
}

func keySet(t *testing.T, keys ...any) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (i *issuer) set() []byte {
	return keySet(i.t, jwk(i.t, "r", i.rsa.Public(), nil), jwk(i.t, "e", i.ecdsa.Public(), nil), jwk(i.t, "d", i.ed25519.Public(), nil))
}

// keysIn writes a key set into a file and opens it.
func keysIn(t *testing.T, set []byte) (*Keys, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := OpenKeys(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func claims(user string, change func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"sub": user, "iss": "shop", "aud": "seckill", "exp": time.Now().Add(time.Minute).Unix()}
	if change != nil {
		change(c)
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, header map[string]any, c jwt.MapClaims, key any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	for name, value := range header {
		token.Header[name] = value
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func bearing(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/activities/a/orders", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return r
}

func isUnauthenticated(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Code == CodeUnauthenticated && strings.HasPrefix(p.Header["WWW-Authenticate"], "Bearer ")
}

func TestJWTOfEveryKind(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	keys, _ := keysIn(t, i.set())
	identify := JWTIdentity(JWTConfig{Secret: i.secret, Keys: keys, Issuer: "shop", Audience: "seckill"})
	for name, token := range map[string]string{
		"RS256":           sign(t, jwt.SigningMethodRS256, map[string]any{"kid": "r"}, claims("ann", nil), i.rsa),
		"ES256":           sign(t, jwt.SigningMethodES256, map[string]any{"kid": "e"}, claims("ann", nil), i.ecdsa),
		"EdDSA":           sign(t, jwt.SigningMethodEdDSA, map[string]any{"kid": "d"}, claims("ann", nil), i.ed25519),
		"HS256":           sign(t, jwt.SigningMethodHS256, nil, claims("ann", nil), i.secret),
		"an access token": sign(t, jwt.SigningMethodES256, map[string]any{"kid": "e", "typ": "at+jwt"}, claims("ann", nil), i.ecdsa),
	} {
		for range 2 { // verified, then remembered
			if user, err := identify(bearing("Bearer " + token)); err != nil || user != "ann" {
				t.Errorf("%s: %q, %v", name, user, err)
			}
		}
	}
}

// Whatever a token says of itself, only the right key with the right algorithm and
// claims in their time make a buyer.
func TestJWTRefusals(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	keys, _ := keysIn(t, i.set())
	both := JWTIdentity(JWTConfig{Secret: i.secret, Keys: keys, Issuer: "shop", Audience: "seckill", Leeway: 5 * time.Second})
	onlyKeys := JWTIdentity(JWTConfig{Keys: keys})
	onlySecret := JWTIdentity(JWTConfig{Secret: i.secret})
	der, err := x509.MarshalPKIXPublicKey(i.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	hs := func(header map[string]any, change func(jwt.MapClaims), key []byte) string {
		return sign(t, jwt.SigningMethodHS256, header, claims("ann", change), key)
	}
	es := func(header map[string]any, change func(jwt.MapClaims)) string {
		return sign(t, jwt.SigningMethodES256, header, claims("ann", change), i.ecdsa)
	}
	e := map[string]any{"kid": "e"}
	set := func(name string, value any) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) { c[name] = value }
	}
	good := es(e, nil)
	cut := strings.LastIndex(good, ".") + 1
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"eve","iss":"shop","aud":"seckill","exp":9999999999}`))
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                           sign(t, jwt.SigningMethodNone, nil, claims("ann", nil), jwt.UnsafeAllowNoneSignatureType),
		"none with the kid of a key":     sign(t, jwt.SigningMethodNone, e, claims("ann", nil), jwt.UnsafeAllowNoneSignatureType),
		"HS256 by the public key":        hs(map[string]any{"kid": "r"}, nil, pemKey),
		"HS256 by the public key's DER":  hs(map[string]any{"kid": "r"}, nil, der),
		"HS256 by the modulus":           hs(map[string]any{"kid": "r"}, nil, i.rsa.N.Bytes()),
		"HS256 by the Ed25519 key":       hs(map[string]any{"kid": "d"}, nil, i.ed25519.Public().(ed25519.PublicKey)),
		"HS256 by another secret":        hs(nil, nil, []byte("another secret")),
		"HS256 by an empty secret":       hs(nil, nil, []byte{}),
		"HS384":                          sign(t, jwt.SigningMethodHS384, nil, claims("ann", nil), i.secret),
		"RS512":                          sign(t, jwt.SigningMethodRS512, map[string]any{"kid": "r"}, claims("ann", nil), i.rsa),
		"PS256":                          sign(t, jwt.SigningMethodPS256, map[string]any{"kid": "r"}, claims("ann", nil), i.rsa),
		"RS256 under the kid of another": sign(t, jwt.SigningMethodRS256, e, claims("ann", nil), i.rsa),
		"ES256 of another issuer":        sign(t, jwt.SigningMethodES256, e, claims("ann", nil), other.ecdsa),
		"EdDSA of another issuer":        sign(t, jwt.SigningMethodEdDSA, map[string]any{"kid": "d"}, claims("ann", nil), other.ed25519),
		"no kid, and several keys":       es(nil, nil),
		"unknown kid":                    es(map[string]any{"kid": "x"}, nil),
		"kid that is no text":            es(map[string]any{"kid": 7}, nil),
		"own key in the header":          sign(t, jwt.SigningMethodES256, map[string]any{"jwk": jwk(t, "", other.ecdsa.Public(), nil)}, claims("eve", nil), other.ecdsa),
		"critical extension":             es(map[string]any{"kid": "e", "crit": []string{"b64"}}, nil),
		"of another type":                es(map[string]any{"kid": "e", "typ": "ticket+jwt"}, nil),
		"type that is no text":           es(map[string]any{"kid": "e", "typ": 7}, nil),
		"expired":                        es(e, set("exp", time.Now().Add(-6*time.Second).Unix())),
		"no expiry":                      es(e, func(c jwt.MapClaims) { delete(c, "exp") }),
		"expiry that is no number":       es(e, set("exp", "tomorrow")),
		"not yet":                        es(e, set("nbf", time.Now().Add(10*time.Second).Unix())),
		"other issuer":                   es(e, set("iss", "mall")),
		"no issuer":                      es(e, func(c jwt.MapClaims) { delete(c, "iss") }),
		"other audience":                 es(e, set("aud", "mail")),
		"no audience":                    es(e, func(c jwt.MapClaims) { delete(c, "aud") }),
		"no subject":                     es(e, func(c jwt.MapClaims) { delete(c, "sub") }),
		"empty subject":                  es(e, set("sub", "")),
		"subject with a line end":        es(e, set("sub", "ann\n")),
		"long subject":                   es(e, set("sub", strings.Repeat("u", 129))),
		"subject that is no text":        es(e, set("sub", 7)),
		"changed claims":                 parts[0] + "." + forged + "." + parts[2],
		"no signature":                   good[:cut],
		"half a signature":               good[:cut+20],
		"something after it":             good + ".x",
		"a blank after it":               good + " ",
		"nothing":                        "",
		"noise":                          "...",
	} {
		for where, identify := range map[string]Identify{"keys and secret": both, "keys": onlyKeys, "secret": onlySecret} {
			if where == "keys" && strings.Contains("other issuer other audience no issuer no audience", name) {
				continue // not asked for there
			}
			if user, err := identify(bearing("Bearer " + token)); !isUnauthenticated(err) {
				t.Errorf("%s, with %s: let in as %q, %v", name, where, user, err)
			}
		}
	}
	for name, headers := range map[string][]string{
		"no header": nil, "two headers": {"Bearer " + good, "Bearer " + good}, "basic": {"Basic " + good}, "scheme alone": {"Bearer"},
	} {
		if user, err := both(bearing(headers...)); !isUnauthenticated(err) {
			t.Errorf("%s: let in as %q, %v", name, user, err)
		}
	}
	if user, err := both(bearing("bearer " + es(e, set("exp", time.Now().Add(-2*time.Second).Unix())))); err != nil || user != "ann" {
		t.Errorf("expired within the leeway: %q, %v", user, err)
	}
}

// Keys that cannot mean a signature of the three kinds are passed over.
func TestKeysOfOtherKinds(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	small := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseKeys(keySet(
		t,
		jwk(t, "e", i.ecdsa.Public(), nil), jwk(t, "small", small, nil), jwk(t, "p384", p384.Public(), nil),
		jwk(t, "encrypts", i.rsa.Public(), func(m *jwkset.JWKMarshal) { m.USE = jwkset.UseEnc }),
		jwk(t, "ps256", i.rsa.Public(), func(m *jwkset.JWKMarshal) { m.ALG = "PS256" }),
		map[string]any{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}, map[string]any{"kty": "new"}, 7,
	))
	if err != nil || len(all) != 1 || all["e"].algorithm != "ES256" {
		t.Errorf("%v, %v", all, err)
	}
	for name, set := range map[string][]byte{
		"no JSON": []byte("<html>"), "no keys": []byte(`{"keys":[]}`), "another document": []byte(`{"a":1}`),
		"one kid twice": keySet(t, jwk(t, "k", i.ecdsa.Public(), nil), jwk(t, "k", i.rsa.Public(), nil)),
	} {
		if all, err := parseKeys(set); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// jwksServer serves a key set that can be replaced, and counts who asks.
type jwksServer struct {
	*httptest.Server
	set   atomic.Pointer[[]byte]
	asked atomic.Int64
}

func newJWKSServer(t *testing.T, set []byte) *jwksServer {
	s := &jwksServer{}
	s.set.Store(&set)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		_, _ = w.Write(*s.set.Load())
	}))
	t.Cleanup(s.Close)
	return s
}

// A new key is believed at its first use, a withdrawn one no longer, and no flood of
// invented kids makes more than one request in a while.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	before, after := newIssuer(t), newIssuer(t)
	server := newJWKSServer(t, keySet(t, jwk(t, "1", before.ecdsa.Public(), nil)))
	keys, err := OpenKeys(t.Context(), server.URL, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	identify := JWTIdentity(JWTConfig{Keys: keys})
	ask := func(i *issuer, kid string) (string, error) {
		return identify(bearing("Bearer " + sign(t, jwt.SigningMethodES256, map[string]any{"kid": kid}, claims("ann", nil), i.ecdsa)))
	}
	old := bearing("Bearer " + sign(t, jwt.SigningMethodES256, map[string]any{"kid": "1"}, claims("ann", nil), before.ecdsa))
	if user, err := identify(old); err != nil || user != "ann" {
		t.Fatalf("the first key: %q, %v", user, err)
	}
	rotated := keySet(t, jwk(t, "2", after.ecdsa.Public(), nil))
	server.set.Store(&rotated)
	var crowd sync.WaitGroup
	for range 20 {
		crowd.Go(func() {
			if user, err := ask(after, "2"); err != nil || user != "ann" {
				t.Errorf("the new key: %q, %v", user, err)
			}
		})
	}
	crowd.Wait()
	if user, err := identify(old); !isUnauthenticated(err) {
		t.Errorf("a token of a withdrawn key, verified before: let in as %q, %v", user, err)
	}
	for n := range 100 {
		crowd.Go(func() {
			if user, err := ask(after, fmt.Sprint("invented-", n)); !isUnauthenticated(err) {
				t.Errorf("an invented kid: let in as %q, %v", user, err)
			}
		})
	}
	crowd.Wait()
	if n := server.asked.Load(); n != 2 {
		t.Errorf("the key set was read %d times, want 2: at the start and for the new kid", n)
	}
}

// The keys of before stay in force while the set cannot be read.
func TestKeysOutliveTheirPlace(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	keys, path := keysIn(t, i.set())
	identify := JWTIdentity(JWTConfig{Keys: keys})
	for _, spoilt := range []func() error{
		func() error { return os.WriteFile(path, []byte("<html>"), 0o600) },
		func() error { return os.Remove(path) },
	} {
		if err := spoilt(); err != nil {
			t.Fatal(err)
		}
		if err := keys.read(t.Context()); err == nil {
			t.Error("a spoilt key set was taken")
		}
		token := sign(t, jwt.SigningMethodES256, map[string]any{"kid": "e"}, claims("ann", nil), i.ecdsa)
		if user, err := identify(bearing("Bearer " + token)); err != nil || user != "ann" {
			t.Errorf("%q, %v", user, err)
		}
	}
}

// What opening a key set complains about names neither password nor token of its URL.
func TestKeysErrorsHideTheURL(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	for _, place := range []string{
		strings.Replace(gone.URL, "://", "://u:hush@", 1) + "/?token=hush", "http://u:hush@127.0.0.1:1/", "http://u:hush@[/",
	} {
		if _, err := OpenKeys(t.Context(), place, gone.Client()); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
}

// A token is found by nothing but itself, in its time, and the memory is bounded.
func TestVerifiedTokens(t *testing.T) {
	t.Parallel()
	v, now := newVerified(2), time.Now()
	v.add(0, "a.b.c", "ann", now.Add(time.Second))
	for token, want := range map[string]string{"a.b.c": "ann", "a.b.d": "", "a.b": "", "A.b.c": "", "a.b.c ": "", "": ""} {
		if user, ok := v.get(token, now); user != want || ok != (want != "") {
			t.Errorf("%q finds %q", token, user)
		}
	}
	if user, ok := v.get("a.b.c", now.Add(time.Second)); ok {
		t.Errorf("an expired token finds %q", user)
	}
	for i := range 10 {
		v.add(0, fmt.Sprint(i), "bob", now.Add(time.Hour))
	}
	if n := v.tokens.Len(); n != 2 {
		t.Errorf("%d tokens are remembered, want 2", n)
	}
	v.purge()
	v.add(0, "late", "cid", now.Add(time.Hour)) // verified before the purge
	if user, ok := v.get("late", now); ok || v.tokens.Len() != 0 {
		t.Errorf("after a purge: %q", user)
	}
}

// Buyers who ask side by side never get each other's names.
func TestJWTManyBuyers(t *testing.T) {
	t.Parallel()
	identify := JWTIdentity(JWTConfig{Secret: []byte("secret")})
	var crowd sync.WaitGroup
	for n := range 50 {
		crowd.Go(func() {
			user := fmt.Sprint("buyer-", n)
			token := sign(t, jwt.SigningMethodHS256, nil, claims(user, nil), []byte("secret"))
			for range 20 {
				if got, err := identify(bearing("Bearer " + token)); err != nil || got != user {
					t.Errorf("%s is taken for %q, %v", user, got, err)
				}
			}
		})
	}
	crowd.Wait()
}

func TestHeaderIdentity(t *testing.T) {
	t.Parallel()
	identify := HeaderIdentity([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for _, tc := range []struct {
		from  string
		users []string
		want  string
	}{
		{"10.1.2.3:4", []string{"ann"}, "ann"},
		{"[::ffff:10.1.2.3]:4", []string{"ann"}, "ann"},
		{"11.1.2.3:4", []string{"ann"}, ""},
		{"@", []string{"ann"}, ""},
		{"10.1.2.3:4", nil, ""},
		{"10.1.2.3:4", []string{"ann", "eve"}, ""},
		{"10.1.2.3:4", []string{""}, ""},
	} {
		r := bearing()
		r.RemoteAddr, r.Header["X-User-Id"] = tc.from, tc.users
		if user, err := identify(r); user != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: %q, %v", tc, user, err)
		}
	}
}

func TestKeysRunEnds(t *testing.T) {
	t.Parallel()
	keys, _ := keysIn(t, newIssuer(t).set())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); keys.Run(ctx, nil) }()
	cancel()
	<-done
}
