package admission

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Ticket lets one buyer into one activity for a time. On the wire, in the header
// Seckill-Ticket, it is a JWT (RFC 7519) signed with HS256, whose header has the typ
// "seckill-ticket+jwt" and whose claims are sub (the buyer), aud (the activity), nbf,
// exp (seconds since 1970) and weight (1 to 100).
type Ticket struct {
	Buyer, Activity string
	From, Until     time.Time
	Weight          int // times the rate of a buyer with weight 1
}

const (
	ticketHeader = "Seckill-Ticket"
	ticketType   = "seckill-ticket+jwt"

	// MaxTicketWeight bounds what a ticket can be worth.
	MaxTicketWeight = 100
)

type ticketClaims struct {
	jwt.RegisteredClaims
	Weight int `json:"weight"`
}

// Sign writes the ticket as it is sent.
func (t Ticket) Sign(secret []byte) (string, error) {
	switch {
	case !ValidUser(t.Buyer):
		return "", errors.New("sign a ticket: the buyer is 1 to 128 bytes of printable UTF-8")
	case !ValidName(t.Activity):
		return "", errors.New("sign a ticket: the activity is 1 to 64 letters, digits, _ and -")
	case t.Weight < 1 || t.Weight > MaxTicketWeight:
		return "", fmt.Errorf("sign a ticket: the weight is a number from 1 to %d", MaxTicketWeight)
	case !t.Until.After(t.From):
		return "", errors.New("sign a ticket: it ends before it begins")
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, ticketClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: t.Buyer, Audience: jwt.ClaimStrings{t.Activity}, NotBefore: jwt.NewNumericDate(t.From), ExpiresAt: jwt.NewNumericDate(t.Until),
		},
		Weight: t.Weight,
	})
	token.Header["typ"] = ticketType
	text, err := token.SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("sign a ticket: %w", err)
	}
	return text, nil
}

// ticketReader checks the tickets of requests. A nil one ignores them.
type ticketReader struct {
	secrets jwt.VerificationKeySet
	needed  []string
}

func newTicketReader(secrets [][]byte, needed []string) *ticketReader {
	if len(secrets) == 0 {
		return nil
	}
	t := &ticketReader{needed: needed}
	for _, s := range secrets {
		t.secrets.Keys = append(t.secrets.Keys, s)
	}
	return t
}

// weight is that of the ticket of a request, 1 without one. A ticket that was sent
// has to be right, needed or not.
func (t *ticketReader) weight(r *http.Request, user, activity string, now time.Time) (int, error) {
	if t == nil {
		return 1, nil
	}
	sent := r.Header[ticketHeader]
	if len(sent) == 0 {
		if slices.Contains(t.needed, activity) || slices.Contains(t.needed, "*") {
			return 0, NewProblem(CodeTicketRequired, "This sale takes nobody without a ticket; send it as %s.", ticketHeader).by("no-ticket")
		}
		return 1, nil
	}
	weight, err := t.read(sent, user, activity, now)
	if err != nil {
		return 0, NewProblem(CodeTicketInvalid, "The ticket is not valid for you, this sale and this time.").by("bad-ticket").Because(err)
	}
	return weight, nil
}

func (t *ticketReader) read(sent []string, user, activity string, now time.Time) (int, error) {
	if len(sent) > 1 {
		return 0, errors.New("more than one ticket")
	}
	var claims ticketClaims
	_, err := jwt.ParseWithClaims(sent[0], &claims, func(token *jwt.Token) (any, error) {
		if token.Header["typ"] != ticketType || token.Header["crit"] != nil {
			return nil, errors.New("the token is no ticket")
		}
		return t.secrets, nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(),
		jwt.WithSubject(user), jwt.WithAudience(activity), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return 0, err
	}
	if len(claims.Audience) != 1 || claims.Weight < 1 || claims.Weight > MaxTicketWeight {
		return 0, errors.New("the ticket has several activities, or a weight that is none")
	}
	return claims.Weight, nil
}
