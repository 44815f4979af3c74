package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// Point 11. A worker dies after its ack and before it has told the gate. No message
// comes again; the sweep alone confirms what is live and gives back what is not. Red if
// a pending record is only ever appended, or released without the ledger's word.
func TestPoint11DiesBeforeTheGateIsTold(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 2))
	answers := s.oneByOne("u", "v", "u")
	s.exec(`update skus set limit_per_user = 1`) // so that the third is rejected
	messages, deliveries := s.fetch(s.partitionConsumer(time.Hour), 3)
	_, err := s.ledger.Settle(t.Context(), s.take(), deliveries, deliveries[2].Seq)
	must(t, err)
	for _, m := range messages {
		must(t, m.DoubleAck(t.Context()))
	}
	if got := s.stock(); got != 7 {
		t.Fatalf("the gate has %d units before it is told, want 7", got)
	}
	s.startSweep()
	s.books("a1", answers[:2])
	s.decided(3, 2)
	if got := s.stock(); got != 8 || s.lastSeq() != deliveries[2].Seq {
		t.Errorf("%d units at the gate, want 8; decided orders were appended again: %t", got, s.lastSeq() != deliveries[2].Seq)
	}
}

// Point 13. Answers to a first delivery come late, while the redelivery is being
// settled: a nak, a term and an ack. Red if any of them loses an order or decides one
// twice. (A late ack without any commit: TestCase20LateAck.)
func TestPoint13LateAnswersOfTheFirstDelivery(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	stale, _ := s.fetch(s.partitionConsumer(time.Hour), 3)
	goOn := s.standstill()
	s.startWorker(workerOptions{}) // begins at the ledger's position, with the same three
	s.waiting(1)
	must(t, stale[0].Nak())
	must(t, stale[1].Term())
	must(t, stale[2].DoubleAck(t.Context())) // the three have arrived
	goOn()
	s.books("a1", answers)
	s.decided(3, 3)
	s.acknowledged()
}

// Point 23. The consumer's state and the ledger's position are lost: the whole log comes
// again, and every order is found decided. Red if one is decided anew.
func TestPoint23FullReplay(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 300, 1))
	stop := s.startWorker(workerOptions{})
	answers := s.crowd(buyers("a1", 400))
	wantCount(t, answers, map[string]int{"202": 300, "409 sold-out": 100})
	s.books("a1", answers)
	stop()
	p := s.log.Partition("a1")
	term := queryInt(t, s, `select term from partitions where partition = $1`, p)
	must(t, s.log.JetStream().DeleteConsumer(t.Context(), s.log.StreamName(), consumer.ConsumerName(p)))
	s.exec(`update partitions set settled_seq = 0`)
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(300, 300)
	s.acknowledged()
	if n := queryInt(t, s, `select count(*) from orders where term <= $1`, term); n != 300 {
		t.Errorf("%d of 300 orders are as they were decided first", n)
	}
}

// Point 33. The log's clock jumps: a delivery counts as late while it is being settled,
// and goes to another worker, which drops it. Red if the early redelivery takes the
// order from the first, or the first's ack from the order.
func TestPoint33EarlyRedelivery(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	const early = 200 * time.Millisecond
	c := s.partitionConsumer(early)
	goOn := s.standstill()
	s.startWorker(workerOptions{ackWait: early})
	s.waiting(1)
	_, again := s.fetch(c, 3)
	for _, d := range again {
		if d.Deliveries < 2 {
			t.Errorf("delivery %d of message %d: it was not the first worker's, nothing was shown", d.Deliveries, d.Seq)
		}
	}
	goOn()
	s.books("a1", answers)
	s.decided(3, 3)
	s.acknowledged()
}

// Point 43. A worker is told to stop in the middle of a batch: it finishes what it has in
// hand, up to the ack, and then ends. Red if the end of taking ends the settlement too.
func TestPoint43StoppedInMidBatch(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	var lines []consumer.ReplayLine
	leases := s.newReplay(&lines).Leases
	goOn := s.standstill()
	stop := s.startWorker(workerOptions{})
	s.waiting(1)
	stopped := wait(stop)
	eventually(t, "the worker has left", func() (bool, string) {
		members, err := leases.List(t.Context(), "member/")
		return err == nil && len(members) == 0, fmt.Sprint(members, err)
	})
	goOn()
	<-stopped
	s.decided(3, 3)
	s.acknowledged()
	s.books("a1", answers)
}

// Point 26. The ledger is away for long: admission goes on until the gate has as many
// undecided orders as it may, and then turns buyers away, without a trace. (Settlement
// meanwhile: TestCase22PostgresAway.) Red if the backlog has no end, or a refusal costs.
func TestPoint26BacklogHasAnEnd(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	n, _ := s.node(admission.Config{BacklogLimit: 30})
	answers := n.crowd(buyers("a1", 50))
	wantCount(t, answers, map[string]int{"202": 30, "503 overloaded": 20})
	if got := s.stock(); got != 70 {
		t.Errorf("%d units left, want 70", got)
	}
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	more := n.crowd(buyers("a1", 50))
	wantCount(t, more, map[string]int{"200": 30, "202": 20})
	s.books("a1", append(answers, more...))
	s.decided(50, 50)
}
