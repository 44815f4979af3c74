package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestThrongRepeatsAndSpreads(t *testing.T) {
	offers := offersOf([]string{"a1", "a2"}, []string{"s1", "s2"})
	th, again, other := newThrong(offers, 100_000, 0.25, 1), newThrong(offers, 100_000, 0.25, 1), newThrong(offers, 100_000, 0.25, 2)
	const n = 20_000
	asked, wanted := map[uint32]string{}, map[string]int{}
	repeats, differ := 0, false
	var r, s, o loadRequest
	for i := range int64(n) {
		th.fill(i, &r)
		again.fill(i, &s)
		other.fill(i, &o)
		what := fmt.Sprintf("%s %s %s", r.Path, r.Body, r.Key)
		if what+string(r.Buyer) != fmt.Sprintf("%s %s %s%s", s.Path, s.Body, s.Key, s.Buyer) {
			t.Fatalf("request %d depends on more than the seed", i)
		}
		differ = differ || string(o.Buyer) != string(r.Buyer)
		buyer := buyerNumber(r.Buyer)
		if before, known := asked[buyer]; known {
			repeats++
			if before != what {
				t.Fatalf("buyer %d asked for %q and then for %q", buyer, before, what)
			}
		}
		asked[buyer] = what
		wanted[fmt.Sprintf("%s %s", r.Path, r.Body)]++
	}
	if repeats < n/5 || repeats > n*3/10 || !differ {
		t.Errorf("%d of %d are repeats, want about a quarter; another seed differs: %v", repeats, n, differ)
	}
	for what, times := range wanted {
		if len(wanted) != 4 || times < n/5 {
			t.Errorf("%s was asked for %d times", what, times)
		}
	}
}

func TestThrongOfFewBuyersAsksAgain(t *testing.T) {
	th := newThrong(offersOf([]string{"a"}, []string{"s"}), 10, 0, 1)
	var r loadRequest
	for i := range int64(1000) {
		if th.fill(i, &r); buyerNumber(r.Buyer) >= 10 {
			t.Fatalf("request %d of %s, there are ten buyers", i, r.Buyer)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		profile  profile
		requests int64
		n        int64
		due      time.Duration
	}{
		{profile{constantProfile, 100, 10 * time.Second}, 1000, 500, 5 * time.Second},
		{profile{rampProfile, 100, 10 * time.Second}, 500, 125, 5 * time.Second},
		{profile{spikeProfile, 100, 10 * time.Second}, 460, 20, 2 * time.Second},
		{profile{spikeProfile, 100, 10 * time.Second}, 460, 220, 4 * time.Second},
		{profile{spikeProfile, 100, 10 * time.Second}, 460, 440, 8 * time.Second},
		{profile{constantProfile, 0, time.Second}, unending, 7, 0},
	} {
		pace, requests, err := c.profile.schedule()
		if err != nil || requests != c.requests {
			t.Errorf("%+v: %d requests, %v; want %d", c.profile, requests, err, c.requests)
			continue
		}
		if due := pace.Due(c.n); due < c.due-time.Millisecond || due > c.due+time.Millisecond {
			t.Errorf("%+v: request %d is due at %v, want %v", c.profile, c.n, due, c.due)
		}
		last := time.Duration(0)
		for n := range min(requests, 1000) {
			if due := pace.Due(n); due < last {
				t.Fatalf("%+v: request %d is due before the one before", c.profile, n)
			} else {
				last = due
			}
		}
	}
}

func TestCourseInTime(t *testing.T) {
	c := newCourse(100 * time.Millisecond)
	at := func(intended, done time.Duration, status int) {
		c.answered(&loadAnswer{Intended: intended * time.Millisecond, Done: done * time.Millisecond, Status: status})
	}
	at(10, 20, 202)
	at(20, 130, 202)
	at(110, 150, 409)
	at(120, 350, 0) // unknown: asked, never answered
	c.settledBy([]sample{{at: 90 * time.Millisecond, settled: 1}, {at: 420 * time.Millisecond, settled: 2}})
	want := []span{
		{asked: 2, answered: 1, admitted: 1, settled: 1},
		{asked: 2, answered: 2, admitted: 1, settled: 1},
		{settled: 1},
		{settled: 1},
		{settled: 2},
	}
	percentiles := [][2]int{{10, 10}, {40, 110}} // as good as the histogram's buckets
	near := func(d time.Duration, ms int) bool {
		return (d - time.Duration(ms)*time.Millisecond).Abs() <= time.Duration(ms)*20*time.Microsecond
	}
	for n := range want {
		got := c.spans[n]
		if n < len(percentiles) && (!near(got.p50, percentiles[n][0]) || !near(got.p99, percentiles[n][1])) {
			t.Errorf("percentiles of span %d: %+v, want about %d ms", n, got, percentiles[n])
		}
		got.p50, got.p99 = 0, 0
		if len(c.spans) != len(want) || got != want[n] {
			t.Errorf("span %d of %d: %+v, want %+v", n, len(c.spans), got, want[n])
		}
	}
}

// Whatever the ledger and the answers do not agree on is found.
func TestAnswersAreComparedWithTheLedger(t *testing.T) {
	ids := make([]uuid.UUID, 6)
	for i := range ids {
		ids[i][15] = byte(i + 1)
	}
	offers := offersOf([]string{"a1"}, []string{"s1"})
	j := &judgement{Clean: true}
	walk := answerWalk{
		judgement: j, throng: newThrong(offers, 10, 0, 1), offers: offers,
		placed:   []heardOrder{{ids[0], 0}, {ids[1], 1}, {ids[2], 2}, {ids[3], 3}, {ids[5], 5}},
		repeated: []heardOrder{{ids[0], 0}, {ids[4], 4}},
	}
	row := func(buyer uint32, status string) bookedRow { return bookedRow{"a1", "s1", buyerName(buyer), status} }
	walk.meet(ids[0], row(0, "confirmed"))
	if !j.Clean {
		t.Errorf("a true answer: %v", j.Violations)
	}
	walk.meet(ids[1], row(7, "confirmed")) // of somebody else
	walk.meet(ids[3], row(3, "rejected"))  // and ids[2] is not there
	walk.rest()                            // nor ids[4] and ids[5]
	if j.Clean || len(j.Violations) != 5 {
		t.Errorf("%d violations, want 5: %q", len(j.Violations), j.Violations)
	}
}

func TestHeardFindsAnswersThatCannotBeTrue(t *testing.T) {
	h := newHeard()
	ask := func(status int, id, buyer string) {
		h.hear(&loadAnswer{Status: status, OrderID: []byte(id), Request: &loadRequest{Buyer: []byte(buyer)}})
	}
	const a, b = "0190b3a0-0000-7000-8000-000000000001", "0190b3a0-0000-7000-8000-000000000002"
	ask(202, a, "buyer-1")
	ask(200, a, "buyer-1")
	ask(200, a, "buyer-1")
	h.settle()
	if h.faulty != 0 {
		t.Errorf("true answers: %v", h.faults)
	}
	ask(202, a, "buyer-2")
	ask(200, a, "buyer-3")
	ask(202, "", "buyer-4")
	ask(202, b, "buyer-5")
	if h.settle(); h.faulty != 3 {
		t.Errorf("%d faults, want 3: %q", h.faulty, h.faults)
	}
}
