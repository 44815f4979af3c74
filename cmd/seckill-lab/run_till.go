package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"seckill/admission"
)

const (
	tillWorkers = 32
	tillPause   = 20 * time.Millisecond // of a worker, before a payment whose outcome is not known is told again
	tillCall    = 5 * time.Second
	tillTries   = 1000 // of one payment
)

// till is where the buyers of a sale with a payment window pay, and the payment service that tells the service of
// it. Of a hundred buyers, unpaid never come. It is safe for concurrent use.
type till struct {
	url    string
	key    []byte
	unpaid int
	client http.Client
	wake   chan struct{} // room for one word to each worker that there are bills

	paid, late, refunds atomic.Int64

	mu     sync.Mutex
	bills  []bill // the newest last, and served first: it still has time
	faults []string
}

// bill is an order that its buyer goes to pay.
type bill struct {
	order, buyer string
	tries        int
}

func newTill(s *service, unpaid int) *till {
	transport := &http.Transport{MaxIdleConnsPerHost: tillWorkers}
	return &till{
		url: "http://" + s.public + "/v1/payments", key: []byte(s.paymentKey), unpaid: unpaid,
		client: http.Client{Transport: transport}, wake: make(chan struct{}, tillWorkers),
	}
}

// pays says whether a buyer is one of those who pay. Both who send a key and who do not are among them.
func (t *till) pays(buyer uint32) bool { return int(buyer/2%100) >= t.unpaid }

// sold sends the buyer of an order to the till, if he pays.
func (t *till) sold(order string, buyer uint32) {
	if t.pays(buyer) {
		t.bring(bill{order: order, buyer: buyerName(buyer)})
	}
}

// bring adds a bill. There are no more than orders that were sold to who pays.
func (t *till) bring(b bill) {
	t.mu.Lock()
	t.bills = append(t.bills, b)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // all of them are told already
	}
}

func (t *till) next() (b bill, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.bills) == 0 {
		return b, false
	}
	last := len(t.bills) - 1
	b, t.bills = t.bills[last], t.bills[:last]
	return b, true
}

// open takes money until ctx ends. The function it returns waits until the till is closed.
func (t *till) open(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for range tillWorkers {
		all.Go(func() { t.serve(ctx) })
	}
	return func() { all.Wait(); t.client.CloseIdleConnections() }
}

func (t *till) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		for b, ok := t.next(); ok && ctx.Err() == nil; b, ok = t.next() {
			t.pay(ctx, b)
		}
	}
}

// pay tells of a payment once, under the same id each time, and brings the bill again if it is not known what came of
// it, or if the order is not decided yet.
func (t *till) pay(ctx context.Context, b bill) {
	body := fmt.Appendf(nil, `{"order_id":%q,"payment_id":"paid-%s","amount":%d}`, b.order, b.order, unitPrice)
	status, said, o := t.tell(ctx, body)
	b.tries++
	unknown := status == 0 || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusNotFound
	switch {
	case ctx.Err() != nil:
	case status == http.StatusOK:
		t.file(b, o)
	case unknown && b.tries < tillTries:
		select {
		case <-ctx.Done():
		case <-time.After(tillPause):
			t.bring(b)
		}
	default:
		t.fault("the payment of order %s by %s was answered %d %s", b.order, b.buyer, status, said)
	}
}

func (t *till) file(b bill, o admission.OrderView) {
	switch {
	case o.Status == admission.Paid:
		t.paid.Add(1)
	case o.ReplacedBy != "":
		t.paid.Add(1)
		t.late.Add(1)
	case o.Refund != "":
		t.refunds.Add(1)
	default:
		t.fault("order %s of %s is %s after its payment, without a refund", b.order, b.buyer, o.Status)
	}
}

// tell sends a signed payment; status 0: no answer.
func (t *till) tell(ctx context.Context, body []byte) (status int, said string, o admission.OrderView) {
	ctx, cancel := context.WithTimeout(ctx, tillCall)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error(), o
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Seckill-Signature", admission.SignPayment(t.key, body, time.Now()))
	answer, err := t.client.Do(request)
	if err != nil {
		return 0, err.Error(), o
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil && answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return 0, err.Error(), o
	}
	return answer.StatusCode, string(text), o
}

func (t *till) fault(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.faults) < faultsShown {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}
