package consumer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// The same message twice in one fetch: others in the fetch are processed.
func TestCase26SameMessageTwice(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	answers := s.crowd(buyers("a1", 20)) // no worker yet: all wait in the log
	stream, err := s.log.JetStream().Stream(t.Context(), s.log.StreamName())
	must(t, err)
	info, err := stream.Info(t.Context())
	must(t, err)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		must(t, err)
		// Without its message id: the duplicate window must not help.
		_, err = s.log.JetStream().Publish(t.Context(), msg.Subject, msg.Data)
		must(t, err)
	}
	answers = append(answers, s.post(one("a1", "after")))
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders`); n != 21 {
		t.Errorf("%d rows for 21 orders", n)
	}
}

// At 64 waiting buyers the log holds less than one message per 8 orders.
func TestBatchIsTheAtom(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	const orders = 4096
	s.open("a1", units("s1", orders, 1))
	asks := make(chan ask)
	done := make(chan answer, orders)
	for range 64 {
		go func() {
			for a := range asks {
				done <- s.post(a)
			}
		}()
	}
	for i := range orders {
		asks <- one("a1", fmt.Sprint("u", i))
	}
	close(asks)
	for range orders {
		if a := <-done; a.status != 202 {
			t.Fatalf("answered %v", a)
		}
	}
	stream, err := s.log.JetStream().Stream(t.Context(), s.log.StreamName())
	must(t, err)
	info, err := stream.Info(t.Context())
	must(t, err)
	t.Logf("%d orders in %d messages", orders, info.State.Msgs)
	if info.State.Msgs*8 >= orders {
		t.Errorf("%d orders in %d messages, want less than one for each 8", orders, info.State.Msgs)
	}
}

// A message that cannot be read, and one for an activity that does not exist, become
// dead letters; what stands around them settles.
func TestUnreadableMessageIsKept(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	answers := []answer{s.post(one("a1", "u1"))}
	partition := s.log.Partition("a1")
	subject := fmt.Sprintf("%s.orders.%d.a1", s.namespace, partition)
	stranger := admission.NewBatch("nowhere", 1)
	stranger.Orders = []admission.Order{{ID: admission.NewID(), User: "u", SKU: "s1", Quantity: 1}}
	strange, err := json.Marshal(stranger)
	must(t, err)
	for _, data := range []string{"{", `{"v":2,"batch":"x","orders":[]}`, string(strange)} {
		_, err := s.log.JetStream().Publish(t.Context(), subject, []byte(data))
		must(t, err)
	}
	answers = append(answers, s.post(one("a1", "u2")))
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	eventually(t, "three dead letters", func() (bool, string) {
		stream, err := s.log.JetStream().Stream(t.Context(), deadStream(s))
		if err != nil {
			return false, err.Error()
		}
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 3, fmt.Sprint(info.State.Msgs, err)
	})
	if n := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'held'`, stranger.Orders[0].ID); n != 1 {
		t.Error("the order for an unknown activity is not held")
	}
}

func deadStream(s *sale) string {
	names := s.log.JetStream().StreamNames(s.t.Context(), jetstream.WithStreamListSubject(s.namespace+".dead.>"))
	for name := range names.Name() {
		return name
	}
	return ""
}
