package admission

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// HeaderIdentity trusts X-User-ID, from the given addresses only: those of the
// gateway that has authenticated the buyer and removes the header from outside.
func HeaderIdentity(trusted []netip.Prefix) Identify {
	return func(r *http.Request) (string, error) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !within(trusted, from.Addr().Unmap()) {
			return "", unauthenticated("This address may not say who is asking.", `Header realm="seckill"`)
		}
		users := r.Header.Values("X-User-Id")
		if len(users) != 1 || !ValidUser(users[0]) {
			return "", unauthenticated("X-User-ID is 1 to 128 bytes of printable UTF-8, given once.", `Header realm="seckill"`)
		}
		return users[0], nil
	}
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// JWTConfig says which bearer tokens are believed. Empty Issuer or Audience: any.
type JWTConfig struct {
	Secret           []byte // of HS256
	Issuer, Audience string
	Leeway           time.Duration // of the token's times
}

// JWTIdentity takes the subject of a verified bearer token. The token must carry
// an expiry.
func JWTIdentity(c JWTConfig) Identify {
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithLeeway(c.Leeway), jwt.WithExpirationRequired(),
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	parser := jwt.NewParser(options...)
	return func(r *http.Request) (string, error) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", unauthenticated("Send a bearer token.", `Bearer realm="seckill"`)
		}
		claims := jwt.RegisteredClaims{}
		_, err := parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
			if _, critical := t.Header["crit"]; critical {
				return nil, errors.New("the token has critical extensions, and none is understood")
			}
			return c.Secret, nil
		})
		if err != nil || !ValidUser(claims.Subject) {
			return "", unauthenticated("The bearer token is not valid.", `Bearer realm="seckill", error="invalid_token"`).Because(err)
		}
		return claims.Subject, nil
	}
}

func unauthenticated(detail, challenge string) *Problem {
	p := NewProblem(CodeUnauthenticated, "%s", detail)
	p.Header = map[string]string{"WWW-Authenticate": challenge}
	return p
}
