package consumer_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

var paymentKey = []byte("a key of sixteen bytes, or more")

// pay tells that an order was paid, as whoever takes the money does.
func (s *sale) pay(order, payment string, amount int64) answer {
	s.t.Helper()
	body := fmt.Sprintf(`{"order_id":%q,"payment_id":%q,"amount":%d}`, order, payment, amount)
	req, err := http.NewRequest(http.MethodPost, s.http.URL+"/v1/payments", strings.NewReader(body))
	must(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Seckill-Signature", admission.SignPayment(paymentKey, []byte(body), time.Now()))
	return s.do(req)
}

// toPay opens a sale of so many units with a payment window and orders one for each
// buyer; all are decided.
func (s *sale) toPay(total, limit int64, users ...string) []answer {
	s.t.Helper()
	s.openWithWindow("a1", time.Hour, units("s1", total, limit))
	s.startWorker(workerOptions{})
	answers := s.oneByOne(users...)
	s.rest("a1")
	return answers
}

// expire lets the deadline of an order pass.
func (s *sale) expire(order string) {
	s.t.Helper()
	s.exec(`update orders set pay_before = now() where id = $1`, order)
	_, err := s.expiry().Round(s.t.Context())
	must(s.t, err)
	if n := queryInt(s.t, s, `select count(*) from orders where id = $1 and status = 'expired'`, order); n != 1 {
		s.t.Fatal("the order has not expired")
	}
}

func (s *sale) latePayments() *consumer.LatePayments {
	return &consumer.LatePayments{Ledger: s.ledger, Service: s.service, Logger: s.logger}
}

// finishLate has the job finish all late payments.
func (s *sale) finishLate() {
	s.t.Helper()
	eventually(s.t, "every late payment has an end", func() (bool, string) {
		s.exec(`update payments set updated_at = now() - interval '1 minute' where state = 'placing'`)
		s.latePayments().Round(s.t.Context())
		n := queryInt(s.t, s, `select count(*) from payments where state = 'placing'`)
		return n == 0, fmt.Sprint(n, " are placing")
	})
}

// paidOnce wants every payment to have bought exactly one live order, or a refund that
// its order shows, and every paid order to have a payment.
func (s *sale) paidOnce() {
	s.t.Helper()
	for what, sql := range map[string]string{
		"paid orders without a payment of their own": `select count(*) from orders o where status = 'paid'
			and (select count(*) from payments p where p.state = 'paid' and coalesce(p.replacement, p.order_id) = o.id) <> 1`,
		"payments that bought nothing": `select count(*) from payments p where state = 'paid' and not exists
			(select 1 from orders o where o.id = coalesce(p.replacement, p.order_id) and o.status = 'paid')`,
		"refunds of live orders": `select count(*) from payments p join orders o on o.id in (p.order_id, p.replacement)
			where p.state = 'refund' and o.status in ('paid', 'confirmed', 'pending_payment')`,
		"refunds that nobody sees": `select count(*) from payments p join orders o on o.id = p.order_id
			where (p.state = 'refund') <> (o.refund is not distinct from 'due')`,
		"payments without an end": `select count(*) from payments where state = 'placing'`,
	} {
		if n := queryInt(s.t, s, sql); n != 0 {
			s.t.Errorf("%d %s", n, what)
		}
	}
}

// The word that an order was paid comes in any order with words that it was not, each
// twice: one final state, one payment. Red if a repeat is another payment, or if
// another payment of the same order counts.
func TestCase28PaymentCallbacks(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	turns := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	var users []string
	for n := range turns {
		users = append(users, fmt.Sprint("u", n))
	}
	orders := s.toPay(10, 1, users...)
	for n, turn := range turns {
		words := [3]func() answer{
			func() answer { return s.pay(orders[n].order, fmt.Sprint("p", n), 100) },
			func() answer { return s.pay(orders[n].order, fmt.Sprint("p", n), 99) },  // a failure: not what was to be paid
			func() answer { return s.pay(orders[n].order, fmt.Sprint("q", n), 100) }, // the buyer paid twice
		}
		for range 2 {
			for _, word := range turn {
				words[word]()
			}
		}
	}
	if n := queryInt(t, s, `select count(*) from orders where status = 'paid'`); n != int64(len(turns)) {
		t.Errorf("%d orders are paid, want %d", n, len(turns))
	}
	if n := queryInt(t, s, `select count(*) from payments`); n != int64(len(turns)) {
		t.Errorf("%d payments, want one for each order", n)
	}
	s.paidOnce()
	s.books("a1", orders)
}

// What is paid is told so, a repeat too; what cannot be is refused, and changes nothing.
func TestPaymentAnswers(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(10, 1, "u", "v", "w")
	for range 2 {
		if got := s.pay(orders[0].order, "p1", 100); got.status != 200 || got.state != "paid" || got.order != orders[0].order {
			t.Errorf("a payment was answered %s %s", got, got.body)
		}
	}
	wantCancelled(t, s.cancel(orders[1].location, "v"))
	if got := s.cancel(orders[0].location, "u"); got.code != "not-cancellable" {
		t.Errorf("a paid order was cancelled: %s", got)
	}
	for name, c := range map[string]struct {
		got    answer
		status int
		code   string
	}{
		"an order that is not there": {s.pay(admission.NewID(), "p2", 100), 404, "not-found"},
		"too little":                 {s.pay(orders[2].order, "p2", 99), 409, "amount-mismatch"},
		"a cancelled order":          {s.pay(orders[1].order, "p2", 100), 409, "not-payable"},
		"a second payment":           {s.pay(orders[0].order, "p2", 100), 409, "not-payable"},
		"another order's payment":    {s.pay(orders[2].order, "p1", 100), 409, "not-payable"},
		"a repeat of another amount": {s.pay(orders[0].order, "p1", 99), 409, "amount-mismatch"},
		"no id of an order":          {s.pay("x", "p2", 100), 400, "invalid-request"},
		"no id of a payment":         {s.pay(orders[2].order, "", 100), 400, "invalid-request"},
		"a negative amount":          {s.pay(orders[2].order, "p2", -1), 400, "invalid-request"},
	} {
		if c.got.status != c.status || c.got.code != c.code {
			t.Errorf("%s: %s %s, want %d %s", name, c.got, c.got.body, c.status, c.code)
		}
	}
	if n := queryInt(t, s, `select count(*) from payments`); n != 1 {
		t.Errorf("%d payments, want the one that was taken", n)
	}
	s.paidOnce()
	s.books("a1", nil)
}

// A thousand orders are paid in the millisecond of their deadline: each is paid or has
// expired, never both, and whoever paid is told which. How long before the deadline a
// payment sets out follows from who won before, so that about half of them win, however
// busy the machine is. Red if the status is not compared under the lock.
func TestCase14PaymentAtTheDeadline(t *testing.T) {
	t.Parallel()
	const rounds = 1000
	s := newSale(t, saleOptions{})
	s.openWithWindow("a1", time.Hour, units("s1", rounds, 1))
	s.startWorker(workerOptions{})
	orders := s.crowd(buyers("a1", rounds))
	for n := range orders {
		eventually(t, "everybody knows his order", func() (bool, string) {
			if orders[n].order == "" {
				orders[n] = s.post(one("a1", fmt.Sprint("buyer-", n)))
			}
			return orders[n].order != "", fmt.Sprint(orders[n])
		})
	}
	s.rest("a1")
	s.startExpiry()
	var wg sync.WaitGroup
	answers := make([]answer, rounds)
	turns := make(chan int, rounds)
	for n := range rounds {
		turns <- n
	}
	close(turns)
	var start head
	for range 64 {
		wg.Go(func() {
			for n := range turns {
				early := start.get()
				s.dueIn(orders[n].order, 300*time.Millisecond+early, early)
				answers[n] = s.payUntilTold(orders[n].order, fmt.Sprint("p", n), 100)
				start.learn(answers[n].state == string(admission.Paid))
			}
		})
	}
	wg.Wait()
	s.finishLate()
	ends := map[string]int{}
	rows, err := s.ledger.Orders(t.Context(), ids(orders))
	must(t, err)
	for n, a := range answers {
		row := rows[orders[n].order]
		ends[string(row.Status)]++
		told := a.status == http.StatusOK && a.state == string(row.Status)
		later := row.Status == admission.Expired && a.code == "outcome-unknown"
		if !told && !later {
			t.Errorf("order %d is %s and the payment was told %s %s", n, row.Status, a, a.body)
		}
	}
	t.Logf("%v of %d; a payment needs %s", ends, rounds, start.get())
	if ends["paid"]+ends["expired"] != rounds {
		t.Errorf("%v: an order is neither paid nor expired", ends)
	}
	if ends["paid"] < rounds/5 || ends["expired"] < rounds/5 {
		t.Errorf("%v: one side wins nearly always, so it is no race", ends)
	}
	s.paidOnce()
	s.books("a1", nil)
}

// payUntilTold repeats a payment that nobody had the time to look at.
func (s *sale) payUntilTold(order, payment string, amount int64) (a answer) {
	s.t.Helper()
	for range 50 {
		if a = s.pay(order, payment, amount); a.status != http.StatusServiceUnavailable || a.code == "outcome-unknown" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return a
}

// dueIn gives an order a deadline and returns so much earlier than it. The deadline is
// further away than the job of expiry ever sleeps.
func (s *sale) dueIn(order string, left, early time.Duration) {
	s.t.Helper()
	s.exec(`update orders set pay_before = clock_timestamp() + $2 where id = $1`, order, left)
	select {
	case <-time.After(left - early):
	case <-s.t.Context().Done():
	}
}

// head is the start that payments get before their deadline: each that came too late
// gives the later ones a millisecond more, each that was in time takes one away.
type head struct{ ms atomic.Int64 }

func (h *head) get() time.Duration { return time.Duration(h.ms.Load()) * time.Millisecond }

func (h *head) learn(won bool) {
	if won {
		h.ms.Add(-1)
		return
	}
	h.ms.Add(1)
}

func ids(answers []answer) []string {
	var all []string
	for _, a := range answers {
		all = append(all, a.order)
	}
	return all
}
