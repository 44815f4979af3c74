package consumer_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"seckill/admission"
)

// A thousand hostile messages of each kind, as only somebody on the inside could write
// them, in the log and among the dead letters: none sells anything, none stops what is
// sold beside them, none is passed over.
func TestThousandHostileMessages(t *testing.T) {
	t.Parallel()
	const each = 1000
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 20, 1))
	s.startWorker(workerOptions{})
	first := s.crowd(buyers("a1", 5))
	s.rest("a1")
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	order := func(n int, id, user, sku string, quantity int) string {
		return fmt.Sprintf(`{"v":1,"batch":"hostile-%d","epoch":%d,"activity":"a1","orders":[{"id":%q,"user":%q,"sku":%q,"quantity":%d,"at":%q}]}`,
			n, a.Epoch, id, user, sku, quantity, at)
	}
	other := func(n int) string { return first[n%5].order }
	kinds := map[string]func(n int) string{
		"sold again":  func(n int) string { return order(n, other(n), "eve", "s1", 1) },
		"more of it":  func(n int) string { return order(n, other(n), fmt.Sprint("buyer-", n%5), "s1", 1000) },
		"no such SKU": func(n int) string { return order(n, admission.NewID(), "eve", "s9", 1) },
		"old epoch": func(n int) string {
			return fmt.Sprintf(`{"v":1,"batch":"old-%d","epoch":%d,"activity":"a1","orders":[{"id":%q,"user":"eve-%d","sku":"s1","quantity":1,"at":%q}]}`,
				n, a.Epoch-1-int64(n), admission.NewID(), n, at)
		},
		"over the limit": func(n int) string { return order(n, admission.NewID(), fmt.Sprint("buyer-", n%5), "s1", 1) },
		"nothing": func(n int) string {
			return fmt.Sprintf(`{"v":1,"batch":"n-%d","epoch":1,"activity":"a1","orders":[]}`, n)
		},
	}
	subject := fmt.Sprintf("%s.orders.%d.a1", s.namespace, s.log.Partition("a1"))
	js := s.log.JetStream()
	for name, kind := range kinds {
		for n := range each {
			if _, err := js.PublishAsync(subject, []byte(kind(n))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	for n := range each { // what cannot be read is kept, after a search for its like
		text := []string{`{"v":1,"orders":[{"id":"%d"}],"activity":"a1"}`, `{"v":%d2}`, `%d`, `{"v":1,"activity":"a1","orders":[{"quantity":-%d}]}`, "\xff%d"}[n%5]
		_, err := js.PublishAsync(subject, fmt.Appendf(nil, text, n))
		must(t, err)
	}
	for n := range each {
		letter, err := json.Marshal(map[string]any{"v": n % 3, "activity": "a1", "order": map[string]any{"id": fmt.Sprint("'; drop table orders; -- ", n)}})
		must(t, err)
		_, err = js.PublishAsync(s.namespace+".dead.a1", letter)
		must(t, err)
	}
	<-js.PublishAsyncComplete()
	var honest answer
	eventually(t, "somebody honest buys", func() (bool, string) { // orders that the gate should have refused have it rebuilt
		honest = s.post(one("a1", "honest"))
		return honest.status == 202 || honest.status == 200, fmt.Sprint(honest)
	})
	s.books("a1", first)
	if n := queryInt(t, s, `select count(*) from orders where user_id like 'eve%' and status not in ('rejected', 'held')`); n != 0 {
		t.Errorf("eve has %d orders", n)
	}
	if n := queryInt(t, s, `select total - stock from skus where sku_id = 's1'`); n != 6 {
		t.Errorf("%d units are sold, want 6", n)
	}
	// Of a SKU that is not there, an order is held: an operator decides.
	if n := len(s.letters()); n != 3*each { // and of what cannot be read, and what was among them
		t.Errorf("%d dead letters, want %d", n, 3*each)
	}
}
