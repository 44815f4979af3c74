package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/admission"
)

// An order that nobody pays expires at its deadline, with nobody asking, and its unit
// is sold again. Red if the job is not run, or the gate is not told.
func TestUnpaidOrderExpires(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, backendEtcd)
	p := i.serve()
	i.operate(p, http.MethodPut, "/admin/v1/activities/a1", `{"title":"t","payment_window":"1s","skus":[{"sku":"s1","total":1,"limit_per_user":1,"price":1}]}`)
	i.operate(p, http.MethodPost, "/admin/v1/activities/a1/open", "")
	for _, user := range []string{"ann", "bob"} {
		var o struct {
			ID        string    `json:"order_id"`
			Status    string    `json:"status"`
			PayBefore time.Time `json:"pay_before"`
		}
		ask := func(method, path, body string) (int, string) {
			status, text, err := call(method, p.http+path, body, map[string]string{"X-User-ID": user})
			must(t, err)
			_ = json.Unmarshal([]byte(text), &o)
			return status, string(text)
		}
		eventually(t, "the unit is sold to "+user, func() (bool, string) {
			status, text := ask(http.MethodPost, "/v1/activities/a1/orders", `{"sku":"s1"}`)
			return status == http.StatusAccepted, text
		})
		eventually(t, "the order of "+user+" expires", func() (bool, string) {
			_, text := ask(http.MethodGet, "/v1/activities/a1/orders/"+o.ID, "")
			return o.Status == "expired", text
		})
		within(t, "expiring after the deadline", time.Since(o.PayBefore), 2*time.Second) // one is promised
	}
	i.audit(0)
}

// Whoever has the key tells that an order was paid, and whoever has not is not believed.
func TestPaymentBySignature(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, backendEtcd)
	p := i.serve()
	i.operate(p, http.MethodPut, "/admin/v1/activities/a1", `{"title":"t","payment_window":"1h","skus":[{"sku":"s1","total":2,"limit_per_user":1,"price":7}]}`)
	i.operate(p, http.MethodPost, "/admin/v1/activities/a1/open", "")
	status, text, err := call(http.MethodPost, p.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": "ann"})
	must(t, err)
	var o struct {
		ID     string `json:"order_id"`
		Status string `json:"status"`
	}
	must(t, json.Unmarshal([]byte(text), &o))
	if status != http.StatusAccepted {
		t.Fatalf("the order was answered with %d", status)
	}
	body := `{"order_id":"` + o.ID + `","payment_id":"p1","amount":7}`
	pay := func(key string) (int, string) {
		status, text, err := call(http.MethodPost, p.http+"/v1/payments", body, map[string]string{
			"Seckill-Signature": admission.SignPayment([]byte(key), []byte(body), time.Now()),
		})
		must(t, err)
		return status, string(text)
	}
	if status, text := pay("a key of somebody else"); status != http.StatusUnauthorized || !strings.Contains(text, "bad-signature") {
		t.Errorf("a wrong key was answered %d %s", status, text)
	}
	eventually(t, "the order is paid", func() (bool, string) { // it has to be decided first
		status, text := pay(i.setting("SECKILL_PAYMENT_SECRETS"))
		return status == http.StatusOK && strings.Contains(text, `"paid"`), text
	})
	i.audit(1)
}
