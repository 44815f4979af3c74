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

// A safeguard is missed by the named case, with these words, when it is off.
var safeguards = []struct{ name, backend, id, words string }{
	{"owner compared in release", "redis", "A9", "the stranger's key was removed"},
	{"create revision in release", "etcd", "A9", "the stranger's key was removed"},
	{"nonce per acquisition", "redis", "A5", "second acquisition of the same provider: <nil>"},
	{"nonce per acquisition", "etcd", "A5", "second acquisition of the same provider: <nil>"},
	{"deadline counted from sending", "redis", "C3b", "is to last"},
	{"deadline counted from sending", "etcd", "C3b", "is to last"},
	{"Err compares clocks", "redis", "C13", "first call after a suspend: <nil>"},
	{"Err compares clocks", "etcd", "C13", "first call after a suspend: <nil>"},
	{"wall clock counts too", "redis", "C13", "first call after a suspend: <nil>"},
	{"wall clock counts too", "etcd", "C13", "first call after a suspend: <nil>"},
	{"late grant is refused", "redis", "B11", "was handed out"},
	{"late grant is refused", "etcd", "B11", "was handed out"},
	{"undo of unknown attempts", "redis", "B6", "still held by another"},
	{"undo of unknown attempts", "etcd", "B6", "still held by another"},
	{"abort marker", "redis", "B6b", "a request that was undone took the name"},
	{"abort marker", "redis", "B6d", "a request that was undone took the name"},
	{"abort marker", "etcd", "B6b", "a request that was undone took the name"},
	{"abort marker", "etcd", "B6c", "still held by another"},
	{"subscription before deciding try", "redis", "E2b", "slept through a release"},
	{"timer beside messages", "redis", "E8", "was not granted the lease"},
	{"waiter watches its own key", "etcd", "B9", "did not notice that its session is gone"},
	{"evictions are pushed", "redis", "H2", "did not end within"},
	{"evictions are pushed", "etcd", "H2", "did not end within"},
	{"token above a lost counter", "redis", "G2", "token 1 after 1"},
	{"renewal never creates", "redis", "C15", "did not end within"},
	{"release is repeated", "redis", "D2", "still held by another"},
	{"release is repeated", "etcd", "D2", "still held by another"},
	{"release without caller's context", "redis", "D1", "still held by another"},
	{"release without caller's context", "etcd", "D1", "still held by another"},
	{"limits without the store", "redis", "B4", "did not end within"},
	{"limits without the store", "etcd", "B4", "did not end within"},
	{"callers never stay long", "redis", "B13", "a caller who was to leave stayed"},
	{"re-entry is recognised", "redis", "F4", "nested without the option"},
	{"re-entry is recognised", "etcd", "F4", "nested without the option"},
	{claimFirst, "redis", "G5b", "was acknowledged and is not there"},
}

// TestSafeguards runs the suite's cases against the package with one safeguard off at
// a time, and fails where a case does not notice, or fails for another reason. It prints
// which case turned red.
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
				red := locktest.Failure(h, s.id)
				if !strings.Contains(red, s.words) {
					t.Errorf("without this safeguard case %s should say %q, and says %q", s.id, s.words, red)
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
