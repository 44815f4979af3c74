package admission

import (
	"net/http"
	"net/netip"
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

func unauthenticated(detail, challenge string) *Problem {
	p := NewProblem(CodeUnauthenticated, "%s", detail)
	p.Header = map[string]string{"WWW-Authenticate": challenge}
	return p
}
