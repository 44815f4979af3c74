package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

func TestNameCodeKeepsNamesAndPrefixes(t *testing.T) {
	t.Parallel()
	same := func(a, b []byte) bool {
		whole := string(a) + string(b)
		code := encodeName(whole)
		back, err := decodeName(code)
		return err == nil && back == whole && strings.HasPrefix(code, encodeName(string(a))) && !strings.ContainsAny(code, "/{}* \x00")
	}
	if err := quick.Check(same, nil); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"%", "%4", "%zz", "a%G0"} {
		if name, err := decodeName(bad); err == nil {
			t.Errorf("%q decoded to %q", bad, name)
		}
	}
}

// What the scripts write is read back, whatever owner and note are; a mark fits no other
// owner; and what is no lock is not taken for one.
func TestRedisValueNamesItsOwner(t *testing.T) {
	t.Parallel()
	same := func(owner, other, note string, token uint64, ms int32) bool {
		value := fmt.Sprintf("%s%d %d %s", ownerMark(owner), token, ms, note)
		in, ok := readValue("n", value)
		return ok && in.Owner == owner && in.Note == note && in.Token == token && in.Since.Equal(time.UnixMilli(int64(ms))) &&
			(owner == other || !strings.HasPrefix(value, ownerMark(other)))
	}
	if err := quick.Check(same, nil); err != nil {
		t.Fatal(err)
	}
	if !same("a 1 2", "a", " 3 4 ", 1, 0) || !same("", "a", "", 1, 0) {
		t.Error("an owner with spaces, or without a letter")
	}
	for _, bad := range []string{"", "lease", "lease 1 a", "lease x a 1 0 ", "lease -1 a 1 0 ", "lease 9 a 1 0 ", "lease 1 a x 0 ", "lease 1 a 1 x ", "lease 1 a 1 0", "lock 1 a 1 0 "} {
		if in, ok := readValue("n", bad); ok {
			t.Errorf("%q was read as %+v", bad, in)
		}
	}
}

func FuzzDecodeName(f *testing.F) {
	for _, s := range []string{"", "a", "partition%2F3", "%", "%C3%A4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) {
		name, err := decodeName(code)
		if err != nil {
			return
		}
		if again, err := decodeName(encodeName(name)); err != nil || again != name {
			t.Fatalf("%q: %q, then %q, %v", code, name, again, err)
		}
	})
}

func TestAgendaIsOrdered(t *testing.T) {
	t.Parallel()
	var a agenda
	entries := make([]entry, 200)
	for i := range entries {
		a.set(&entries[i], time.Duration(rand.IntN(50)))
	}
	for i := range entries {
		switch i % 3 {
		case 0:
			a.set(&entries[i], time.Duration(rand.IntN(50)))
		case 1:
			a.drop(&entries[i])
			a.drop(&entries[i])
		}
	}
	last, n := time.Duration(-1), 0
	for e := a.due(24); e != nil; e = a.due(24) {
		if e.at < last || e.at > 24 {
			t.Fatalf("entry at %d after %d", e.at, last)
		}
		last = e.at
	}
	for e := a.due(50); e != nil; e = a.due(50) {
		if e.at <= 24 {
			t.Fatalf("entry at %d was left", e.at)
		}
		n++
	}
	if _, ok := a.next(); ok || n == 0 {
		t.Fatalf("%d entries after 24, agenda of %d", n, len(a))
	}
}

func TestInstantTakesTheLargerClock(t *testing.T) {
	t.Parallel()
	start := Instant{Mono: 10, Wall: 1000}
	for _, c := range []struct {
		now  Instant
		want time.Duration
	}{
		{Instant{15, 1005}, 5},
		{Instant{15, 400}, 5},    // set back
		{Instant{10, 1500}, 500}, // suspended
	} {
		if got := c.now.Since(start); got != c.want {
			t.Errorf("since: %v, want %v", got, c.want)
		}
	}
}

func TestMarginLeavesThreeRenewals(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{MinTTL, time.Second, 10 * time.Second, time.Minute} {
		for _, guard := range []time.Duration{0, ttl / 3} {
			if err := checkTimes(ttl, guard); err != nil {
				t.Fatal(err)
			}
			if valid := ttl - margin(ttl, guard); valid < ttl/2 {
				t.Errorf("TTL %v, guard %v: valid for %v", ttl, guard, valid)
			}
		}
	}
}

func TestPasswordsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"redis://u:s3cret@h:badport", "http://u:s3cret@h", "redis://u:s3cret@h/notanumber", "redis://u:s3cret@h?bad=1", "u:s3cret@h"} {
		_, err := Open(context.Background(), Config{Backend: "redis", RedisURL: u})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

func TestReasonsHaveWords(t *testing.T) {
	t.Parallel()
	for r := Expired; r <= Closed; r++ {
		if strings.HasPrefix(r.String(), "reason") || r.String() == "unknown" {
			t.Errorf("reason %d is %q", r, r)
		}
	}
	if err := error(&LostError{Name: "n", Reason: Expired, Cause: context.Canceled}); !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
