package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// clockTolerance is how far clocks may differ before buyers notice.
	clockTolerance = 500 * time.Millisecond
	// settleTime is what settling one batch may take.
	settleTime = 5 * time.Second
	// longLease is when a dead worker's partitions wait noticeably.
	longLease = 30 * time.Second
	// shortToken and shortKey are what may be guessed, in bytes.
	shortToken, shortKey = 16, 32
)

// clockReadings are the clocks of the stores against this machine's.
type clockReadings struct {
	mu   sync.Mutex
	list []clockReading
}

type clockReading struct {
	store   string
	ahead   time.Duration
	unsure  time.Duration // half of the time that the question took
	unknown error
}

// read asks a store for its time in microseconds.
func (c *clockReadings) read(store string, ask func() (int64, error)) {
	before := time.Now()
	at, err := ask()
	took := time.Since(before)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, clockReading{
		store: store, ahead: time.UnixMicro(at).Sub(before.Add(took / 2)), unsure: took / 2, unknown: err,
	})
}

func lookAtClocks(c *clockReadings, out *checks) {
	const check = "clocks"
	lowest, highest := clockReading{store: "this machine"}, clockReading{store: "this machine"}
	var seen []string
	for _, r := range c.list {
		if r.unknown != nil {
			out.unknown(check, "that of "+r.store+" cannot be read: "+oneLine(r.unknown.Error()), "ask again when it answers")
			continue
		}
		seen = append(seen, fmt.Sprintf("%s %+d ms", r.store, r.ahead.Milliseconds()))
		if r.ahead < lowest.ahead {
			lowest = r
		}
		if r.ahead > highest.ahead {
			highest = r
		}
	}
	apart := highest.ahead - lowest.ahead - highest.unsure - lowest.unsure
	switch {
	case len(seen) == 0:
		out.unknown(check, "no store told its time", "ask again when Redis and Postgres answer")
	case apart > clockTolerance:
		out.finding(warning, check, fmt.Sprintf("%s is at least %v ahead of %s", highest.store, apart.Round(time.Millisecond), lowest.store),
			"not-started and ended: Redis decides when a sale begins and ends, so it does so early or late; tokens and time limits are judged by other clocks",
			"NTP (chrony or systemd-timesyncd) on every machine")
	default:
		out.ok(check, "%s against this machine", strings.Join(seen, ", "))
	}
}

func lookAtSettings(c Config, out *checks) {
	judgeTimes(c, out)
	judgeAdmin(c, out)
	if c.hasRole(roleAPI) {
		judgeAuth(c, out)
	}
}

func judgeTimes(c Config, out *checks) {
	const check = "lock.ttl and log.ack_wait"
	what := fmt.Sprintf("lock.ttl %v, log.ack_wait %v", c.LockTTL, c.LogAckWait)
	switch {
	case c.LogAckWait <= max(c.LockTTL, settleTime):
		out.finding(warning, check, what, "orders are delivered again while they are being settled; G5 holds, the work is done twice",
			fmt.Sprintf("SECKILL_LOG_ACK_WAIT above %v, and the consumers made anew", max(c.LockTTL, settleTime)))
	case c.LockTTL > longLease:
		out.finding(note, check, what, fmt.Sprintf("orders of a killed worker stay accepted for up to %v", c.LockTTL), "SECKILL_LOCK_TTL=10s")
	default:
		out.ok(check, "%s", what)
	}
	if c.LogMaxAge > 0 && c.LogMaxAge < shortestMaxAge {
		out.finding(warning, "log.max_age", c.LogMaxAge.String(), fmt.Sprintf("G3: if no worker settles for %v, accepted orders are lost", c.LogMaxAge), "SECKILL_LOG_MAX_AGE=168h, or 0s for ever")
	}
}

func judgeAdmin(c Config, out *checks) {
	const check = "admin address"
	host, _, _ := net.SplitHostPort(c.AdminAddr)
	ip, err := netip.ParseAddr(host)
	open := host != "localhost" && (err != nil || !ip.IsLoopback())
	switch {
	case c.AdminToken == "":
		out.ok(check, "no token: its operators' routes refuse")
	case len(c.AdminToken) < shortToken:
		out.finding(warning, check, fmt.Sprintf("the token is shorter than %d bytes", shortToken), "whoever guesses it opens and closes sales", "SECKILL_ADMIN_TOKEN from: openssl rand -hex 24")
	case open:
		out.finding(note, check, "it listens beyond this machine, without TLS", "whoever reads along has the token", "a private network, or a proxy with TLS before it")
	default:
		out.ok(check, "a token is needed")
	}
}

func judgeAuth(c Config, out *checks) {
	const check = "who a buyer is"
	switch c.AuthMode {
	case "":
		out.unknown(check, "auth.mode has no value here", "the configuration of serve, such as SECKILL_AUTH_MODE")
	case authJWT:
		judgeJWT(c, out, check)
	default:
		for _, prefix := range c.AuthTrustedProxies {
			if a := prefix.Addr(); prefix.Bits() == 0 || !a.IsLoopback() && !a.IsPrivate() && !prefix.IsSingleIP() {
				out.finding(serious, check, "X-User-ID is believed from "+prefix.String(), "G2: whoever connects from there is any buyer he likes, and the limit means nothing",
					"SECKILL_AUTH_TRUSTED_PROXIES with the addresses of your gateway only")
				return
			}
		}
		out.ok(check, "X-User-ID, from %d trusted networks", len(c.AuthTrustedProxies))
	}
}

func judgeJWT(c Config, out *checks, check string) {
	switch {
	case len(c.AuthJWTSecret) < shortKey:
		out.finding(warning, check, fmt.Sprintf("the key of the tokens is shorter than %d bytes", shortKey), "G2: whoever guesses it is any buyer he likes", "SECKILL_AUTH_JWT_SECRET from: openssl rand -hex 32")
	case c.AuthJWTIssuer == "" && c.AuthJWTAudience == "":
		out.finding(note, check, "tokens of any issuer and for any audience are taken", "G2: a token that the same key signed for another purpose buys here", "SECKILL_AUTH_JWT_ISSUER and SECKILL_AUTH_JWT_AUDIENCE")
	default:
		out.ok(check, "signed tokens")
	}
}
