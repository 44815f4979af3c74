package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
	"seckill/lockprovider"
)

// replay runs one with what a test wants different, and returns its lines.
func (s *sale) replay(selection consumer.Selection, change func(*consumer.Replay)) (consumer.ReplaySummary, []consumer.ReplayLine, error) {
	s.t.Helper()
	var lines []consumer.ReplayLine
	r := s.newReplay(&lines)
	if change != nil {
		change(r)
	}
	if selection.Source == "" {
		selection.Source = consumer.ReplayOrders
	}
	if selection.Mode == "" {
		selection.Mode = consumer.ReplayRepublish
	}
	summary, err := r.Start(s.t.Context(), selection)
	return summary, lines, err
}

func (s *sale) newReplay(lines *[]consumer.ReplayLine) *consumer.Replay {
	s.t.Helper()
	leases, err := lockprovider.Open(s.t.Context(), lockprovider.Config{
		Backend: "etcd", EtcdEndpoints: []string{s.servers.EtcdEndpoint()}, Namespace: s.namespace,
		TTL: 3 * time.Second, Instance: "replayer", Logger: s.logger,
	})
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = leases.Close(ctx)
	})
	return &consumer.Replay{
		Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: s.dead(), Leases: leases, Logger: s.logger,
		Report: func(l []consumer.ReplayLine) error { *lines = append(*lines, l...); return nil },
	}
}

func (s *sale) lastSeq() uint64 {
	s.t.Helper()
	last, err := s.log.LastSeq(s.t.Context(), "a1")
	must(s.t, err)
	return last
}

func wantCounts(t *testing.T, what string, s consumer.ReplaySummary, err error, want consumer.ReplayCounts) {
	t.Helper()
	want.Read = s.Read
	if err != nil || s.ReplayCounts != want {
		t.Errorf("%s: %+v (%v), want %+v", what, s.ReplayCounts, err, want)
	}
}

// The same range is replayed within the duplicate window, and again after it: the
// copies really pass through, all are reported as decided already, nothing changes. A
// replay of everything does not take the copies of the one before for new orders.
func TestCase23ReplayTwice(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 50, 1))
	s.startWorker(workerOptions{})
	answers := s.crowd(buyers("a1", 80))
	s.books("a1", answers)
	last := s.lastSeq()
	whole := consumer.ReplayCounts{Matched: 50, Already: 50}

	for round, what := range []string{"at once", "within the window", "after the window"} {
		if round == 2 {
			s.shrinkWindow()
		}
		before := s.lastSeq()
		summary, lines, err := s.replay(consumer.Selection{ToSeq: last}, nil)
		wantCounts(t, what, summary, err, whole)
		if len(lines) != 50 || lines[0].Seq == 0 || lines[0].Seq > last {
			t.Errorf("%s: %d lines, the first %+v", what, len(lines), lines[0])
		}
		if after := s.lastSeq(); after == before {
			t.Errorf("%s: nothing was appended: the duplicate window has swallowed the copies", what)
		}
		if settled, err := s.ledger.Settled(t.Context(), s.log.Partition("a1")); err != nil || settled < s.lastSeq() {
			t.Errorf("%s: settled to %d of %d (%v): the copies did not pass through", what, settled, s.lastSeq(), err)
		}
	}
	summary, _, err := s.replay(consumer.Selection{}, nil)
	wantCounts(t, "everything", summary, err, whole)
	s.books("a1", answers)
	s.wantClean(50)
	if n := queryInt(t, s, `select count(*) from orders`); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
}

// shrinkWindow makes the log's duplicate window 100 ms and waits until it has passed.
func (s *sale) shrinkWindow() {
	s.t.Helper()
	stream, err := s.log.JetStream().Stream(s.t.Context(), s.log.StreamName())
	must(s.t, err)
	c := stream.CachedInfo().Config
	c.Duplicates = 100 * time.Millisecond
	_, err = s.log.JetStream().UpdateStream(s.t.Context(), c)
	must(s.t, err)
	publish := func() bool {
		ack, err := s.log.JetStream().Publish(s.t.Context(), s.log.Subject("probe"), []byte(`{"v":1,"batch":"p","activity":"probe","orders":[]}`), jetstream.WithMsgID("probe"))
		must(s.t, err)
		return ack.Duplicate
	}
	publish()
	eventually(s.t, "the duplicate window is over", func() (bool, string) { return !publish(), "duplicate" })
}

// Without a worker nothing is decided: the replay says so, and where to go on. Resumed
// beside a worker it ends as if it had not been stopped.
func TestReplayWithoutWorkerIsResumed(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.crowd(buyers("a1", 10))
	summary, lines, err := s.replay(consumer.Selection{}, func(r *consumer.Replay) { r.Patience = 200 * time.Millisecond })
	if !errors.Is(err, consumer.ErrUndecided) || summary.Unknown != 10 || len(lines) != 10 || lines[0].Result != "unknown" {
		t.Fatalf("without a worker: %+v, %v", summary, err)
	}
	s.startWorker(workerOptions{})
	lines = nil
	again, err := s.newReplay(&lines).Resume(t.Context(), summary.Run)
	wantCounts(t, "resumed", again, err, consumer.ReplayCounts{Matched: 10, Settled: 10})
	if again.ToSeq != summary.ToSeq || again.Run != summary.Run {
		t.Errorf("resumed as %+v, was %+v", again, summary)
	}
	// A finished one has nothing left to do.
	lines = nil
	again, err = s.newReplay(&lines).Resume(t.Context(), summary.Run)
	wantCounts(t, "finished", again, err, consumer.ReplayCounts{Matched: 10, Settled: 10})
	if len(lines) != 0 {
		t.Errorf("%d lines of a finished replay", len(lines))
	}
	if _, err = s.newReplay(&lines).Resume(t.Context(), admission.NewID()); !errors.Is(err, consumer.ErrNoRun) {
		t.Errorf("an unknown replay: %v", err)
	}
	s.books("a1", answers)
	s.wantClean(10)
}

// Apply settles under lease and term, and refuses while a worker holds a partition.
func TestReplayApply(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 30, 1))
	answers := s.crowd(buyers("a1", 40))
	apply := consumer.Selection{Mode: consumer.ReplayApply, Activity: "a1"}
	summary, _, err := s.replay(apply, nil)
	wantCounts(t, "settled by apply", summary, err, consumer.ReplayCounts{Matched: 30, Settled: 30})
	term := queryInt(t, s, `select term from partitions where partition = $1`, s.log.Partition("a1"))
	if n := queryInt(t, s, `select count(*) from orders where term = $1`, term); n != 30 || term == 0 {
		t.Errorf("%d orders settled under the replay's term %d, want 30", n, term)
	}
	if settled, err := s.ledger.Settled(t.Context(), s.log.Partition("a1")); err != nil || settled != 0 {
		t.Errorf("the position moved to %d (%v)", settled, err)
	}
	summary, _, err = s.replay(apply, nil)
	wantCounts(t, "applied again", summary, err, consumer.ReplayCounts{Matched: 30, Already: 30})

	s.startWorker(workerOptions{instance: "busy-worker"})
	s.books("a1", answers)
	_, _, err = s.replay(apply, nil)
	if !errors.Is(err, lockprovider.ErrHeld) || !strings.Contains(err.Error(), "busy-worker") {
		t.Errorf("apply beside a worker: %v", err)
	}
	s.wantClean(30)
}

// Held orders are decided by a replay of the dead letters, by a copy in the log or
// here, also when their gate was rebuilt meanwhile; what cannot be settled stays held.
func TestReplayOfDeadLetters(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{consumer.ReplayRepublish, consumer.ReplayApply} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSale(t, saleOptions{})
			s.open("a1", units("s1", 5, 2))
			s.poison()
			answers := s.crowd([]ask{one("a1", "u1"), one("a1", "poison"), one("a1", "poison")})
			stop := s.startWorker(workerOptions{})
			s.held(answers[1].order)
			s.held(answers[2].order)
			must(t, s.dead().Broken(t.Context(), consumer.Unreadable{From: consumer.Delivery{Seq: 9}, Data: []byte("{"), Why: errors.New("no JSON")}))
			if mode == consumer.ReplayApply {
				stop()
			}
			dead := consumer.Selection{Source: consumer.ReplayDead, Mode: mode}
			summary, _, err := s.replay(dead, nil)
			wantCounts(t, "still poison", summary, err, consumer.ReplayCounts{Matched: 3, Dead: 3})
			if n := len(s.letters()); n != 3 {
				t.Errorf("%d dead letters, want each of 3 once", n)
			}
			// A replay of the log leaves them to the operator.
			summary, _, err = s.replay(consumer.Selection{Mode: mode}, nil)
			wantCounts(t, "from the log", summary, err, consumer.ReplayCounts{Matched: 3, Already: 1, Dead: 2})

			s.antidote()
			if mode == consumer.ReplayRepublish {
				s.openGate("a1") // everything is of an older epoch now
			}
			dead.User = "poison"
			summary, _, err = s.replay(dead, nil)
			wantCounts(t, "decided", summary, err, consumer.ReplayCounts{Matched: 2, Settled: 2})
			if n := len(s.letters()); n != 1 {
				t.Errorf("%d dead letters, want the unreadable one", n)
			}
			must(t, s.dead().Remove(t.Context(), s.letters()...))
			s.startWorker(workerOptions{instance: "second"})
			s.wantClean(3)
		})
	}
}

// Selectors pick orders; a plan counts them and changes nothing.
func TestReplaySelectors(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 50, 5), units("s2", 50, 5))
	s.open("a2", units("s1", 50, 5))
	s.startWorker(workerOptions{})
	var answers []answer
	for i := range 6 { // the buyer u1 has five of s2, and is then at the limit
		answers = append(answers, s.post(one("a1", fmt.Sprint("u", i))), s.post(ask{activity: "a1", user: "u1", body: `{"sku":"s2"}`}))
	}
	wantCount(t, answers, map[string]int{"202": 11, "409 limit-reached": 1})
	s.post(one("a2", "u1"))
	s.rest("a1")
	s.rest("a2")
	p1, p2 := s.log.Partition("a1"), s.log.Partition("a2")
	first := queryInt(t, s, `select min(log_seq) from orders`)
	var at time.Time
	must(t, s.pool.QueryRow(t.Context(), `select created_at from orders where id = $1`, answers[8].order).Scan(&at))
	for what, c := range map[string]struct {
		selection consumer.Selection
		want      uint64
	}{
		"all":               {consumer.Selection{}, 12},
		"activity":          {consumer.Selection{Activity: "a1"}, 11},
		"sku":               {consumer.Selection{Activity: "a1", SKU: "s2"}, 5},
		"user":              {consumer.Selection{User: "u1"}, 7},
		"order":             {consumer.Selection{Order: answers[0].order}, 1},
		"partition":         {consumer.Selection{Partition: &p2, Activity: "a2"}, 1},
		"another partition": {consumer.Selection{Partition: &p1, Activity: "a2"}, 0},
		"to":                {consumer.Selection{ToSeq: uint64(first)}, 1},
		"from":              {consumer.Selection{FromSeq: uint64(first) + 1}, 11},
		"since":             {consumer.Selection{Activity: "a1", Since: at}, uint64(queryInt(t, s, `select count(*) from orders where activity_id = 'a1' and created_at >= $1`, at))},
		"until":             {consumer.Selection{Activity: "a1", Until: at}, uint64(queryInt(t, s, `select count(*) from orders where activity_id = 'a1' and created_at < $1`, at))},
	} {
		c.selection.Source, c.selection.Mode = consumer.ReplayOrders, consumer.ReplayRepublish
		before := s.lastSeq()
		var lines []consumer.ReplayLine
		plan, err := s.newReplay(&lines).Plan(t.Context(), c.selection)
		if err != nil || plan.Matched != c.want || plan.Already != c.want || len(lines) != 0 || s.lastSeq() != before {
			t.Errorf("plan by %s: %+v (%v), want %d", what, plan, err, c.want)
		}
	}
	if n := queryInt(t, s, `select count(*) from replays`); n != 0 {
		t.Errorf("%d records of plans", n)
	}
	summary, lines, err := s.replay(consumer.Selection{User: "u1"}, func(r *consumer.Replay) { r.Rate = 3 })
	wantCounts(t, "replayed by user", summary, err, consumer.ReplayCounts{Matched: 7, Already: 7})
	if len(lines) != 7 {
		t.Errorf("%d lines, want 7", len(lines))
	}
	if _, _, err := s.replay(consumer.Selection{Source: "nowhere"}, nil); err == nil {
		t.Error("an unknown source was taken")
	}
}
