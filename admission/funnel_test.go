package admission

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// refusal is the code and the reason of a problem.
func refusal(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return string(p.Code) + " " + p.Reason
	}
	return fmt.Sprint(err)
}

func from(address string, forwarded ...string) *http.Request {
	r := bearing()
	r.RemoteAddr, r.Header["X-Forwarded-For"] = address, forwarded
	return r
}

// The limiter lets through what a token bucket would, for any pace.
func TestLimiterIsATokenBucket(t *testing.T) {
	t.Parallel()
	for _, weight := range []int{1, 3} {
		l := newLimiter(Rate{Every: 90 * time.Millisecond, Burst: 4}, 10)
		bucket := rate.NewLimiter(rate.Every(90*time.Millisecond/time.Duration(weight)), 4*weight)
		now := time.Now()
		for i := range 5000 {
			now = now.Add(time.Duration(i*7919%61) * time.Millisecond)
			if i%100 == 0 {
				now = now.Add(time.Second)
			}
			wait, want := l.take("ann", weight, now), bucket.AllowN(now, 1)
			if (wait == 0) != want {
				// The bucket counts in floating point: at the very edge it may differ.
				if wait < time.Microsecond || want && wait > time.Millisecond {
					t.Fatalf("weight %d, request %d: wait %s, the bucket says %v", weight, i, wait, want)
				}
				bucket.AllowN(now, 0)
			}
		}
	}
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	l, now := newLimiter(Rate{Every: time.Second, Burst: 2}, 2), time.Now()
	for i, want := range []time.Duration{0, 0, time.Second, time.Second} {
		if wait := l.take("ann", 1, now); wait != want {
			t.Errorf("request %d waits %s, want %s", i, wait, want)
		}
	}
	if wait := l.take("bob", 1, now); wait != 0 {
		t.Errorf("another buyer waits %s", wait)
	}
	if wait := l.take("ann", 1, now.Add(time.Second)); wait != 0 {
		t.Errorf("after the wait: %s", wait)
	}
	for i := range 100 {
		l.take(fmt.Sprint(i), 1, now)
	}
	if n := l.due.Len(); n != 2 {
		t.Errorf("%d are remembered, want 2", n)
	}
	var off *limiter
	if wait := off.take("ann", 1, now); wait != 0 {
		t.Errorf("without a limit: %s", wait)
	}
}

func TestFunnelAddresses(t *testing.T) {
	t.Parallel()
	f := NewFunnel(FunnelConfig{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, tc := range []struct {
		r    *http.Request
		want string
	}{
		{from("192.0.2.1:5"), "192.0.2.1"},
		{from("192.0.2.1:5", "198.51.100.9"), "192.0.2.1"}, // nobody's proxy: what it says is not believed
		{from("10.1.1.1:5", "198.51.100.9"), "198.51.100.9"},
		{from("10.1.1.1:5", "203.0.113.7, 198.51.100.9"), "198.51.100.9"}, // the first was sent by the buyer
		{from("10.1.1.1:5", "203.0.113.7", "198.51.100.9, 10.2.2.2"), "198.51.100.9"},
		{from("10.1.1.1:5", "nonsense"), "10.1.1.1"},
		{from("10.1.1.1:5"), "10.1.1.1"},
		{from("[::ffff:192.0.2.1]:5"), "192.0.2.1"},
		{from("[2001:db8:1:2:3::4]:5"), "2001:db8:1:2::/64"},
	} {
		if got, ok := f.address(tc.r); !ok || Network(got) != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.r.RemoteAddr, tc.r.Header["X-Forwarded-For"], Network(got), tc.want)
		}
	}
}

func TestFunnelRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deny")
	if err := os.WriteFile(path, []byte("# bots\nbuyer eve\n\naddress 192.0.2.0/24\naddress 2001:db8::1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	deny, err := OpenDeny(path)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFunnel(FunnelConfig{InFlight: 1, Buyer: Rate{time.Hour, 1}, Address: Rate{time.Hour, 3}, Denied: deny})
	enter := func(address string) string {
		leave, err := f.enter(from(address))
		defer leave()
		return refusal(err)
	}
	for _, tc := range [][2]string{
		{"192.0.2.7:1", "denied denied-address"},
		{"[2001:db8::1]:1", "denied denied-address"},
		{"198.51.100.1:1", "<nil>"},
		{"198.51.100.1:2", "<nil>"},
		{"198.51.100.1:3", "<nil>"},
		{"198.51.100.1:4", "rate-limited address-limit"},
		{"198.51.100.2:1", "<nil>"},
	} {
		if got := enter(tc[0]); got != tc[1] {
			t.Errorf("from %s: %s, want %s", tc[0], got, tc[1])
		}
	}
	for _, tc := range [][2]string{{"eve", "denied denied-buyer"}, {"ann", "<nil>"}, {"ann", "rate-limited buyer-limit"}, {"bob", "<nil>"}} {
		if got := refusal(f.admit(bearing(), tc[0], "a1")); got != tc[1] {
			t.Errorf("%s: %s, want %s", tc[0], got, tc[1])
		}
	}
	leave, err := f.enter(from("198.51.100.3:1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := enter("198.51.100.4:1"); got != "overloaded in-flight" {
		t.Errorf("a second one under way: %s", got)
	}
	leave()
	if got := enter("198.51.100.4:1"); got != "<nil>" {
		t.Errorf("after the first is gone: %s", got)
	}
	var none *Funnel
	if leave, err := none.enter(bearing()); err != nil || none.admit(bearing(), "eve", "a1") != nil {
		t.Errorf("no funnel refuses: %v", err)
	} else {
		leave()
	}
}

// A changed list is in force without a restart; a spoilt one leaves that of before.
func TestDenyListIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deny")
	begin := time.Now()
	put := func(text string, n int) {
		t.Helper()
		when := begin.Add(time.Duration(n) * time.Second)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	put("buyer eve", 0)
	d, err := OpenDeny(path)
	if err != nil || !d.buyer("eve") || d.buyer("ann") {
		t.Fatalf("%v", err)
	}
	put("buyer ann", 1)
	if err := d.read(); err != nil || d.buyer("eve") || !d.buyer("ann") {
		t.Errorf("after the change: %v", err)
	}
	for i, spoilt := range []string{"eve", "buyer", "address nowhere", "address 1.2.3.4/99"} {
		put(spoilt, 2+i)
		if err := d.read(); err == nil || !d.buyer("ann") {
			t.Errorf("%q: %v", spoilt, err)
		}
	}
	if _, err := OpenDeny(path + "x"); err == nil {
		t.Error("a list that is not there was taken")
	}
}

var ticketKey = []byte("a key of sixteen bytes or more")

func ticket(t *testing.T, change func(*Ticket)) string {
	t.Helper()
	one := Ticket{Buyer: "ann", Activity: "a1", From: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Minute), Weight: 5}
	if change != nil {
		change(&one)
	}
	text, err := one.Sign(ticketKey)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTickets(t *testing.T) {
	t.Parallel()
	f := NewFunnel(FunnelConfig{Buyer: Rate{time.Hour, 1}, TicketSecrets: [][]byte{[]byte("the newest key of them all"), ticketKey}, TicketFor: []string{"a1"}})
	with := func(tickets ...string) *http.Request {
		r := bearing()
		r.Header[ticketHeader] = tickets
		return r
	}
	if got := refusal(f.admit(bearing(), "ann", "a1")); got != "ticket-required no-ticket" {
		t.Errorf("without one: %s", got)
	}
	if got := refusal(f.admit(bearing(), "ann", "a2")); got != "<nil>" {
		t.Errorf("where none is needed: %s", got)
	}
	good := ticket(t, nil)
	weightless := sign(t, jwt.SigningMethodHS256, map[string]any{"typ": ticketType}, jwt.MapClaims{
		"sub": "ann", "aud": "a1", "nbf": 1, "exp": time.Now().Add(time.Minute).Unix(),
	}, ticketKey)
	identity := sign(t, jwt.SigningMethodHS256, nil, jwt.MapClaims{
		"sub": "ann", "aud": "a1", "nbf": 1, "exp": time.Now().Add(time.Minute).Unix(), "weight": 5,
	}, ticketKey)
	none := sign(t, jwt.SigningMethodNone, map[string]any{"typ": ticketType}, jwt.MapClaims{
		"sub": "ann", "aud": "a1", "nbf": 1, "exp": time.Now().Add(time.Minute).Unix(), "weight": 5,
	}, jwt.UnsafeAllowNoneSignatureType)
	for name, r := range map[string]*http.Request{
		"of another buyer":    with(ticket(t, func(o *Ticket) { o.Buyer = "bob" })),
		"of another activity": with(ticket(t, func(o *Ticket) { o.Activity = "a2" })),
		"not yet":             with(ticket(t, func(o *Ticket) { o.From = time.Now().Add(10 * time.Second) })),
		"no more":             with(ticket(t, func(o *Ticket) { o.Until = time.Now().Add(-2 * time.Second) })),
		"two":                 with(good, good), "empty": with(""), "cut": with(good[:len(good)-3]), "without a weight": with(weightless),
		"a proof of identity": with(identity), "unsigned": with(none),
	} {
		if got := refusal(f.admit(r, "ann", "a1")); got != "ticket-invalid bad-ticket" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for i := range 6 { // weight 5: five times the burst
		want := "<nil>"
		if i == 5 {
			want = "rate-limited buyer-limit"
		}
		f := f
		if i == 0 {
			f.buyers.due.Purge()
		}
		if got := refusal(f.admit(with(good), "ann", "a1")); got != want {
			t.Errorf("request %d with a ticket of weight 5: %s, want %s", i, got, want)
		}
	}
	if user, err := JWTIdentity(JWTConfig{Secret: ticketKey})(bearing("Bearer " + good)); err == nil {
		t.Errorf("a ticket is taken as a proof of identity of %q", user)
	}
	for _, bad := range []Ticket{
		{Buyer: "", Activity: "a", Weight: 1},
		{Buyer: "a", Activity: "/", Weight: 1},
		{Buyer: "a", Activity: "a"},
		{Buyer: "a", Activity: "a", Weight: 101},
		{Buyer: "a", Activity: "a", Weight: 1},
	} {
		if _, err := bad.Sign(ticketKey); err == nil {
			t.Errorf("%+v was signed", bad)
		}
	}
}

// A breaker opens by the share of calls that fail or are slow, and only by it.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, breakerOpens)
}

func breakerOpens(t *testing.T) {
	for name, tc := range map[string]struct {
		good, bad, slow int
		open            bool
	}{
		"all well": {good: 20}, "few calls": {bad: 4}, "half fail": {good: 5, bad: 5, open: true}, "a third fails": {good: 14, bad: 6},
		"half are slow": {good: 3, slow: 3, open: true}, "slow and failing": {good: 4, bad: 2, slow: 2, open: true},
	} {
		opened := 0
		b := newBreaker("a store", BreakerConfig{Percent: 50, Slow: 50 * time.Millisecond}, slog.New(slog.DiscardHandler), func(*breaker) { opened++ })
		for range tc.good {
			b.watch()(nil)
		}
		for range tc.slow {
			done := b.watch()
			time.Sleep(60 * time.Millisecond) // of the bubble's clock: nobody waits
			done(nil)
		}
		for range tc.bad {
			b.watch()(errors.New("away"))
		}
		if b.isOpen() != tc.open || (opened == 1) != tc.open {
			t.Errorf("%s: open %v, want %v; told %d times", name, b.isOpen(), tc.open, opened)
		}
	}
	var none *breaker
	none.watch()(errors.New("away"))
	if none.isOpen() {
		t.Error("no breaker is open")
	}
}
