package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd is many buyers who ask until they know: after no answer, or one that is not
// the truth yet, they ask again, as a real client would.
type crowd struct {
	t      *testing.T
	target atomic.Pointer[process] // whom they ask now

	mu       sync.Mutex
	accepted map[string]bool // ids answered with 202 or 200
	soldOut  int
	answers  atomic.Int64 // of 202
}

func newCrowd(t *testing.T, p *process) *crowd {
	c := &crowd{t: t, accepted: map[string]bool{}}
	c.target.Store(p)
	return c
}

// buy lets n buyers ask, 64 at a time, and returns when all know the truth.
func (c *crowd) buy(n int) {
	var wg sync.WaitGroup
	buyers := make(chan int)
	for range 64 {
		wg.Go(func() {
			for b := range buyers {
				c.one(fmt.Sprint("buyer-", b))
			}
		})
	}
	for b := range n {
		buyers <- b
	}
	close(buyers)
	wg.Wait()
}

// buyUntil lets new buyers ask, 16 at a time, until ctx ends and those in hand know
// the truth.
func (c *crowd) buyUntil(ctx context.Context) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.one(fmt.Sprint("buyer-", next.Add(1)))
			}
		})
	}
	wg.Wait()
}

func (c *crowd) one(user string) {
	deadline := time.Now().Add(60 * time.Second)
	var last error
	for time.Now().Before(deadline) {
		status, body, err := call(http.MethodPost, c.target.Load().http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": user})
		if err == nil && c.note(status, body) {
			return
		}
		last = errors.Join(err, fmt.Errorf("%d %s", status, body))
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Errorf("%s never got an answer: %v", user, last)
}

// note files an answer and says whether it is final.
func (c *crowd) note(status int, body []byte) bool {
	var order struct {
		ID string `json:"order_id"`
	}
	_ = json.Unmarshal(body, &order)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch status {
	case http.StatusAccepted, http.StatusOK:
		c.accepted[order.ID] = true
		c.answers.Add(1)
	case http.StatusConflict:
		c.soldOut++
	default:
		return false
	}
	return true
}

// decided wants every accepted order to be live in the ledger.
func (c *crowd) decided(i *installation) {
	c.t.Helper()
	var ids []string
	for id := range c.accepted {
		ids = append(ids, id)
	}
	if n := i.queryInt(`select count(*) from orders where id = any($1::uuid[]) and status = 'confirmed'`, ids); n != len(ids) {
		c.t.Errorf("%d orders were accepted, %d of them are confirmed", len(ids), n)
	}
}

// until waits until ok, for a time that only a broken system needs, and returns how
// long it took.
func until(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 60*time.Second {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}
