package admission

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// FunnelConfig says how many buyers get as far as the gate. Every zero value is off.
type FunnelConfig struct {
	InFlight      int            // requests for an order at once, in this process
	CPU           *CPU           // turns a part of the requests for an order away
	Buyer         Rate           // of one buyer's requests to place or cancel an order
	Address       Rate           // of those from one address, and of unsigned payments; IPv6: from one /64
	Proxies       []netip.Prefix // whose X-Forwarded-For is believed
	Denied        *Deny          // who gets in never
	TicketSecrets [][]byte       // that sign entry tickets, the newest first
	TicketFor     []string       // activities that take nobody without a ticket; "*": all
}

// Funnel is the stage before the gate: it turns away who may not or need not get there,
// at the price of a few comparisons. A nil Funnel lets everybody through. Safe for
// concurrent use.
type Funnel struct {
	config    FunnelConfig
	inFlight  atomic.Int64
	buyers    *limiter
	addresses *limiter
	tickets   *ticketReader
}

// NewFunnel returns the funnel of a process.
func NewFunnel(c FunnelConfig) *Funnel {
	return &Funnel{
		config: c, buyers: newLimiter(c.Buyer, rememberedKeys), addresses: newLimiter(c.Address, rememberedKeys),
		tickets: newTicketReader(c.TicketSecrets, c.TicketFor),
	}
}

// enter counts a request in and looks at where it comes from, before anything else is
// done for it. The function that it returns counts the request out.
func (f *Funnel) enter(r *http.Request) (leave func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	leave = func() { f.inFlight.Add(-1) }
	if n := f.inFlight.Add(1); f.config.InFlight > 0 && n > int64(f.config.InFlight) {
		return leave, NewProblem(CodeOverloaded, "Too many requests are under way here; ask again in a moment.").by("in-flight")
	}
	if f.config.CPU.sheds() {
		return leave, NewProblem(CodeOverloaded, "This node has all the work that it can do; ask again in a moment.").by("cpu")
	}
	from, ok := f.address(r)
	if ok && f.config.Denied.address(from) {
		return leave, NewProblem(CodeDenied, "Requests from this address are not taken.").by("denied-address")
	}
	return leave, f.knock(r)
}

// knock counts a request against the limit of the address that it comes from.
func (f *Funnel) knock(r *http.Request) error {
	if f == nil || f.addresses == nil {
		return nil
	}
	from, ok := f.address(r)
	if !ok {
		return nil
	}
	if wait := f.addresses.take(Network(from), 1, time.Now()); wait > 0 {
		return limited(wait, "Too many requests come from this address").by("address-limit")
	}
	return nil
}

// pace counts a request of a buyer against his limit.
func (f *Funnel) pace(user string, weight int) error {
	if f == nil {
		return nil
	}
	if wait := f.buyers.take(user, weight, time.Now()); wait > 0 {
		return limited(wait, "You ask too often").by("buyer-limit")
	}
	return nil
}

// admit looks at who asks, and for which activity.
func (f *Funnel) admit(r *http.Request, user, activity string) error {
	if f == nil {
		return nil
	}
	if f.config.Denied.buyer(user) {
		return NewProblem(CodeDenied, "Requests of this buyer are not taken.").by("denied-buyer")
	}
	weight, err := f.tickets.weight(r, user, activity, time.Now())
	if err != nil {
		return err
	}
	return f.pace(user, weight)
}

func limited(wait time.Duration, why string) *Problem {
	p := NewProblem(CodeRateLimited, "%s; ask again after the time in Retry-After.", why)
	p.RetryAfter = wait
	return p
}

// address is where a request comes from: of a proxy that is believed, what it says
// last that is not a proxy itself.
func (f *Funnel) address(r *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	from := peer.Addr().Unmap()
	if !within(f.config.Proxies, from) {
		return from, true
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return from, true
		}
		if from = hop.Unmap().WithZone(""); !within(f.config.Proxies, from) {
			return from, true
		}
	}
	return from, true
}

// Network is what is limited together: one address, or the /64 that one IPv6 line has.
func Network(a netip.Addr) string {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
