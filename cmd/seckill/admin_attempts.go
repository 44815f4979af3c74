package main

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	pace "golang.org/x/time/rate"

	"seckill/admission"
)

const (
	// Wrong tokens that an address may try at once, and the pause between later ones.
	wrongAtOnce, wrongEvery = 5, 5 * time.Second
	// rememberedAddresses bounds how many addresses are remembered for that.
	rememberedAddresses = 10_000
)

// attempts limits, by address, how fast tokens can be guessed: at the login, as bearer
// tokens, and in forged cookies. An address costs nobody at another one anything. Safe
// for concurrent use.
type attempts struct {
	mu sync.Mutex
	of *simplelru.LRU[string, *guesser]
}

// guesser is an address that has given something wrong: how much more it may, and what it
// gave last. The same again is no guess, but a script or a page with an old token.
type guesser struct {
	left *pace.Limiter
	gave [wrongAtOnce][sha256.Size]byte
	next int
}

func newAttempts() *attempts {
	of, err := simplelru.NewLRU[string, *guesser](rememberedAddresses, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &attempts{of: of}
}

// addressOf is what is limited together: an address, or the network of an IPv6 line.
func addressOf(remote string) string {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	return admission.Network(peer.Addr().Unmap())
}

// over says that the address has to wait before anything it gives is looked at.
func (a *attempts) over(remote string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.of.Get(addressOf(remote))
	return ok && g.left.TokensAt(now) < 1
}

// wrong notes that what the address gave is wrong.
func (a *attempts) wrong(remote, given string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	address, sum := addressOf(remote), sha256.Sum256([]byte(given))
	g, ok := a.of.Get(address)
	if !ok {
		g = &guesser{left: pace.NewLimiter(pace.Every(wrongEvery), wrongAtOnce)}
		a.of.Add(address, g)
	}
	if slices.Contains(g.gave[:], sum) {
		return
	}
	g.left.AllowN(now, 1)
	g.gave[g.next] = sum
	g.next = (g.next + 1) % len(g.gave)
}

// tooMany is the answer to an address that has to wait. A right token gets it, too, so
// that a guess says nothing.
func tooMany() *admission.Problem {
	p := admission.NewProblem(admission.CodeRateLimited, "Wrong tokens were tried from this address; wait before the next.")
	p.RetryAfter = wrongEvery
	return p
}

// knownCookies are sessions that this process has found good. They are let in whatever
// else comes from their address, so that nobody who guesses behind the same proxy keeps
// an operator out: the id in a cookie cannot be guessed, even by who has the token. Safe
// for concurrent use.
type knownCookies struct {
	mu sync.Mutex
	of *simplelru.LRU[[sha256.Size]byte, struct{}]
}

// rememberedCookies bounds how many sessions are remembered for that.
const rememberedCookies = 1_000

func newKnownCookies() *knownCookies {
	of, err := simplelru.NewLRU[[sha256.Size]byte, struct{}](rememberedCookies, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &knownCookies{of: of}
}

func (k *knownCookies) add(cookie string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of.Add(sha256.Sum256([]byte(cookie)), struct{}{})
}

func (k *knownCookies) has(cookie string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.of.Get(sha256.Sum256([]byte(cookie)))
	return ok
}
