package admission

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// denyInterval is how long a changed deny list may go unnoticed.
const denyInterval = 2 * time.Second

// Deny is the list of buyers and addresses that are not let in: a file of lines
// "buyer ID", "address 192.0.2.0/24" and "# why", read again when it has changed. A
// file that cannot be read leaves the list of before. Safe for concurrent use; a nil
// Deny denies nobody.
type Deny struct {
	path    string
	changed time.Time
	list    atomic.Pointer[denied]
}

type denied struct {
	buyers    map[string]bool
	addresses []netip.Prefix
}

// OpenDeny reads the list for the first time.
func OpenDeny(path string) (*Deny, error) {
	d := &Deny{path: path}
	return d, d.read()
}

// Run reads the list again whenever its file has changed, until ctx ends.
func (d *Deny) Run(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(denyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.read(); err != nil {
				logger.Warn("deny list not read again: the one of before stays in force", "error", err)
			}
		}
	}
}

func (d *Deny) read() error {
	info, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("read the deny list: %w", err)
	}
	if d.list.Load() != nil && info.ModTime().Equal(d.changed) {
		return nil
	}
	text, err := os.ReadFile(d.path)
	if err != nil {
		return fmt.Errorf("read the deny list: %w", err)
	}
	list, err := parseDeny(string(text))
	if err != nil {
		return fmt.Errorf("read the deny list %s: %w", d.path, err)
	}
	d.list.Store(list)
	d.changed = info.ModTime()
	return nil
}

func parseDeny(text string) (*denied, error) {
	list := &denied{buyers: map[string]bool{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		what, who, _ := strings.Cut(line, " ")
		who = strings.TrimSpace(who)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case what == "buyer" && ValidUser(who):
			list.buyers[who] = true
		case what == "address":
			network, err := parseNetwork(who)
			if err != nil {
				return nil, fmt.Errorf("line %d: not an address or a network", n)
			}
			list.addresses = append(list.addresses, network)
		default:
			return nil, fmt.Errorf("line %d: write buyer ID, address 192.0.2.0/24, or # and words", n)
		}
	}
	return list, lines.Err()
}

func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

func (d *Deny) buyer(user string) bool { return d != nil && d.list.Load().buyers[user] }

func (d *Deny) address(a netip.Addr) bool { return d != nil && within(d.list.Load().addresses, a) }
