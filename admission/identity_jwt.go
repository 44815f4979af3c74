package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// JWTConfig says which bearer tokens are believed. Secret or Keys is needed; with
// both, the token's algorithm says which of them has to have signed it.
type JWTConfig struct {
	Secret           []byte        // of HS256
	Keys             *Keys         // of RS256, ES256 and EdDSA
	Issuer, Audience string        // empty: any
	Leeway           time.Duration // of the token's times
}

// JWTIdentity takes the subject of a verified bearer token, which must carry an
// expiry. A token that was verified is remembered until it expires, or until the
// keys change.
func JWTIdentity(c JWTConfig) Identify {
	v := &verifier{config: c, parser: c.parser(), verified: newVerified(verifiedTokens)}
	if c.Keys != nil {
		c.Keys.changed = v.verified.purge
	}
	return v.identify
}

// verifier tells buyers apart by their tokens.
type verifier struct {
	config   JWTConfig
	parser   *jwt.Parser
	verified *verified
}

func (c JWTConfig) parser() *jwt.Parser {
	var methods []string
	if len(c.Secret) > 0 {
		methods = append(methods, jwt.SigningMethodHS256.Alg())
	}
	if c.Keys != nil {
		methods = append(methods, jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodEdDSA.Alg())
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(methods), jwt.WithLeeway(c.Leeway), jwt.WithExpirationRequired()}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	return jwt.NewParser(options...)
}

func (v *verifier) identify(r *http.Request) (string, error) {
	header := r.Header["Authorization"]
	if len(header) != 1 {
		return "", unauthenticated("Send one bearer token.", `Bearer realm="seckill"`)
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", unauthenticated("Send a bearer token.", `Bearer realm="seckill"`)
	}
	now := time.Now()
	if user, ok := v.verified.get(token, now); ok {
		return user, nil
	}
	user, err := v.verify(r.Context(), token)
	if err != nil {
		return "", unauthenticated("The bearer token is not valid.", `Bearer realm="seckill", error="invalid_token"`).Because(err)
	}
	return user, nil
}

// verify checks a token in full and remembers it.
func (v *verifier) verify(ctx context.Context, token string) (string, error) {
	generation := v.verified.generation()
	claims := jwt.RegisteredClaims{}
	_, err := v.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t) })
	if err != nil {
		return "", err
	}
	if !ValidUser(claims.Subject) {
		return "", errors.New("the token's sub is not 1 to 128 bytes of printable UTF-8")
	}
	v.verified.add(generation, token, claims.Subject, claims.ExpiresAt.Add(v.config.Leeway))
	return claims.Subject, nil
}

// key finds what has to have signed the token. The kind of the key decides the
// algorithm, never the token: a public key is no secret of an HMAC.
func (v *verifier) key(ctx context.Context, t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, errors.New("the token has critical extensions, and none is understood")
	}
	if typ, given := t.Header["typ"]; given && !identityType(typ) {
		return nil, errors.New("the token's typ says that it is no proof of identity")
	}
	if t.Method.Alg() == jwt.SigningMethodHS256.Alg() {
		return v.config.Secret, nil
	}
	kid, _ := t.Header["kid"].(string)
	key, err := v.config.Keys.find(ctx, kid)
	if err != nil {
		return nil, err
	}
	if key.algorithm != t.Method.Alg() {
		return nil, fmt.Errorf("the token says %s, its key is one of %s", t.Method.Alg(), key.algorithm)
	}
	return key.public, nil
}

// identityType says whether a token of this typ may say who its bearer is. Others,
// such as entry tickets, may be signed with the same key and mean something else.
func identityType(typ any) bool {
	text, _ := typ.(string)
	text = strings.TrimPrefix(strings.ToLower(text), "application/")
	return text == "jwt" || text == "at+jwt"
}
