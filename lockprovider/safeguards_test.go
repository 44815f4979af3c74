package lockprovider_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/lockprovider"
	"seckill/lockprovider/locktest"
)

// The fence's order is a rule for users of the package, not code of it.
const claimFirst = "fence is claimed before reading"

// A safeguard is missed by the named case when it is off.
var safeguards = []struct{ name, backend, id string }{
	{"owner compared in release", "redis", "A9"},
	{"create revision in release", "etcd", "A9"},
	{"nonce per acquisition", "redis", "A5"},
	{"nonce per acquisition", "etcd", "A5"},
	{"deadline counted from sending", "redis", "C2"},
	{"deadline counted from sending", "etcd", "C2"},
	{"Err compares clocks", "redis", "C13"},
	{"Err compares clocks", "etcd", "C13"},
	{"wall clock counts too", "redis", "C13"},
	{"wall clock counts too", "etcd", "C13"},
	{"late grant is refused", "redis", "B11"},
	{"late grant is refused", "etcd", "B11"},
	{"undo of unknown attempts", "redis", "B6"},
	{"undo of unknown attempts", "etcd", "B6"},
	{"abort marker", "etcd", "B6b"},
	{"subscription before deciding try", "redis", "E2"},
	{"timer beside messages", "redis", "E8"},
	{"waiter watches its own key", "etcd", "B9"},
	{"evictions are pushed", "redis", "H2"},
	{"evictions are pushed", "etcd", "H2"},
	{"token above a lost counter", "redis", "G2"},
	{"renewal never creates", "redis", "C15"},
	{"release is repeated", "redis", "D2"},
	{"release is repeated", "etcd", "D2"},
	{"release without caller's context", "redis", "D1"},
	{"release without caller's context", "etcd", "D1"},
	{"limits without the store", "redis", "B4"},
	{"limits without the store", "etcd", "B4"},
	{"re-entry is recognised", "redis", "F4"},
	{"re-entry is recognised", "etcd", "F4"},
	{claimFirst, "redis", "G5b"},
}

// TestSafeguards runs the suite's cases against the package with one safeguard off at
// a time, and fails where a case does not notice. It prints which case turned red.
func TestSafeguards(t *testing.T) {
	rows := make([]string, len(safeguards))
	known := map[string]bool{}
	t.Run("off", func(t *testing.T) {
		for i, s := range safeguards {
			known[s.name] = true
			h := harness(t, s.backend)
			if s.name == claimFirst {
				h.ClaimLate = true
			} else {
				h.Adjust = func(cfg *lockprovider.Config) {
					if !lockprovider.SwitchOff(cfg, s.name) {
						panic("no switch for " + s.name)
					}
				}
			}
			t.Run(fmt.Sprintf("%s_%s_%s", s.id, s.backend, s.name), func(t *testing.T) {
				t.Parallel()
				red := ""
				for n := 0; n < 3 && red == ""; n++ { // some need a moment that a busy machine misses
					red = locktest.Failure(h, s.id)
				}
				if red == "" {
					t.Errorf("case %s passes without this safeguard", s.id)
				}
				rows[i] = fmt.Sprintf("| %s | %s | %s | %s |", s.name, s.backend, s.id, strings.ReplaceAll(red, "|", "/"))
			})
		}
	})
	if len(known) != lockprovider.Safeguards()+1 {
		t.Errorf("%d safeguards have a case, %d have a switch", len(known)-1, lockprovider.Safeguards())
	}
	table := "| safeguard switched off | backend | case | turned red with |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	fmt.Print(table)
	if path := os.Getenv("LOCKTEST_TABLE"); path != "" {
		head := "# Safeguards, and the case that misses each\n\nWritten by `LOCKTEST_TABLE=$PWD/lockprovider/locktest/SAFEGUARDS.md go test -race -run TestSafeguards ./lockprovider`.\n\n"
		if err := os.WriteFile(path, []byte(head+table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// soakLimit is the length of TestSoak unless LOCKTEST_SOAK says otherwise.
const soakLimit = 3 * time.Second

// TestSoak runs histories and the fenced list under random faults on both backends:
// LOCKTEST_SOAK=10m LOCKTEST_SEED=1 go test -race -run TestSoak -timeout 20m ./lockprovider
func TestSoak(t *testing.T) {
	limit, seed := soakLimit, uint64(time.Now().UnixNano())
	if s := os.Getenv("LOCKTEST_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("LOCKTEST_SOAK: %v", err)
		}
		limit = d
	}
	if s := os.Getenv("LOCKTEST_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatalf("LOCKTEST_SEED: %v", err)
		}
	}
	fmt.Printf("locktest: soak for %v, LOCKTEST_SEED=%d\n", limit, seed)
	var wg sync.WaitGroup
	for _, backend := range []string{"redis", "etcd"} {
		h := harness(t, backend)
		wg.Go(func() { locktest.Soak(t, h, limit, seed) })
	}
	wg.Wait()
}
