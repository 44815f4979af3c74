package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// order asks for one unit and returns the answer.
func (s *served) order(activity, user, body string, headers ...string) asked {
	s.t.Helper()
	return ask(s.t, nil, http.MethodPost, "http://"+s.http+"/v1/activities/"+activity+"/orders", body,
		append([]string{"Content-Type", "application/json", "X-User-ID", user}, headers...)...)
}

// reason is the limit that a problem names.
func (a asked) reason() string {
	var p struct{ Reason string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return a.code() + " " + p.Reason
}

// Each limit refuses with its own code and reason, says when to come back, and counts.
func TestFunnel(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	deny := filepath.Join(t.TempDir(), "deny")
	if err := os.WriteFile(deny, []byte("buyer eve\naddress 203.0.113.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.environ = append(i.environ, "SECKILL_PAYMENT_SECRETS=another key of sixteen bytes", "SECKILL_DENY_LIST="+deny, "SECKILL_TICKET_SECRETS=a key of sixteen bytes", "SECKILL_TICKET_ACTIVITIES=gala",
		"SECKILL_LIMIT_BUYER=1/h", "SECKILL_LIMIT_BUYER_BURST=2", "SECKILL_LIMIT_ADDRESS=1/h", "SECKILL_LIMIT_ADDRESS_BURST=3")
	for _, name := range []string{"spring", "gala"} {
		i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: "+name+"\nskus:\n- {sku: s1, total: 9, limit_per_user: 9}\n"))
		i.must(exitDone, "activity", "open", name, "--yes")
	}
	s := i.serve()
	var ticket struct{ Ticket string }
	i.answer(&ticket, "activity", "ticket", "gala", "--user", "tom", "--weight", "2")
	const one = `{"sku":"s1"}`
	at := func(n int) []string { return []string{"X-Forwarded-For", fmt.Sprint("198.51.100.", n)} }
	for n, tc := range []struct {
		activity, user string
		headers        []string
		want           string
	}{
		{"spring", "ann", at(1), " "},
		{"spring", "ann", at(2), " "},
		{"spring", "ann", at(3), "rate-limited buyer-limit"},
		{"spring", "b1", at(9), " "},
		{"spring", "b2", at(9), " "},
		{"spring", "b3", at(9), " "},
		{"spring", "b4", at(9), "rate-limited address-limit"},
		{"spring", "eve", at(4), "denied denied-buyer"},
		{"spring", "fay", []string{"X-Forwarded-For", "203.0.113.9"}, "denied denied-address"},
		{"gala", "tom", at(5), "ticket-required no-ticket"},
		{"gala", "tim", append(at(5), "Seckill-Ticket", ticket.Ticket), "ticket-invalid bad-ticket"},
		{"gala", "tom", append(at(6), "Seckill-Ticket", ticket.Ticket), " "},
		{"gala", "tom", append(at(6), "Seckill-Ticket", ticket.Ticket), " "},
		{"gala", "tom", append(at(6), "Seckill-Ticket", ticket.Ticket), " "},
	} {
		got := s.order(tc.activity, tc.user, one, tc.headers...)
		if got.reason() != tc.want || strings.HasPrefix(tc.want, "rate") && (got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "") {
			t.Errorf("request %d: %d %s, want %q", n, got.status, got.body, tc.want)
		}
	}
	const order, payment = `{}`, `{"order_id":"01999999-0000-7000-8000-000000000001","payment_id":"p","amount":1}`
	signed := []string{"Seckill-Signature", admission.SignPayment([]byte("another key of sixteen bytes"), []byte(payment), time.Now())}
	cancel := "/v1/activities/spring/orders/01999999-0000-7000-8000-000000000001/cancel"
	for n, tc := range []struct {
		path, user, body string
		headers          []string
		want             string
	}{
		{cancel, "hal", order, at(20), "not-found "},
		{cancel, "hal", order, at(21), "not-found "},
		{cancel, "hal", order, at(22), "rate-limited buyer-limit"},
		{cancel, "", order, at(23), "unauthenticated "},
		{cancel, "", order, at(23), "unauthenticated "},
		{cancel, "", order, at(23), "unauthenticated "},
		{cancel, "ian", order, at(23), "rate-limited address-limit"},
		{"/v1/payments", "", payment, at(24), "bad-signature "},
		{"/v1/payments", "", payment, at(24), "bad-signature "},
		{"/v1/payments", "", strings.Repeat(" ", 5000), at(24), "too-large "},
		{"/v1/payments", "", payment, at(24), "rate-limited address-limit"},
		{"/v1/payments", "", payment, append(signed, at(24)...), "not-found "}, // who can sign has no limit
	} {
		headers := append([]string{"Content-Type", "application/json"}, tc.headers...)
		if tc.user != "" {
			headers = append(headers, "X-User-ID", tc.user)
		}
		got := ask(t, nil, http.MethodPost, "http://"+s.http+tc.path, tc.body, headers...)
		if got.reason() != tc.want || strings.HasPrefix(tc.want, "rate") && (got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "") {
			t.Errorf("%s %d: %d %s, want %q", tc.path, n, got.status, got.body, tc.want)
		}
	}
	metrics := ask(t, nil, http.MethodGet, "http://"+s.admin+"/metrics", "").body
	for _, want := range []string{
		`seckill_admission_total{outcome="rate-limited"} 2`, `seckill_admission_total{outcome="denied"} 2`,
		`seckill_admission_total{outcome="ticket-required"} 1`, `seckill_admission_total{outcome="ticket-invalid"} 1`,
		`seckill_refused_total{reason="buyer-limit"} 2`, `seckill_refused_total{reason="address-limit"} 3`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Past the processors' limit, which is always passed here, a growing part of the buyers
// is turned away, and never everybody. Red if the looks are not taken, or not obeyed.
func TestBusyProcessorsShedBuyers(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_LIMIT_CPU=1")
	i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: spring\nskus:\n- {sku: s1, total: 9, limit_per_user: 9}\n"))
	i.must(exitDone, "activity", "open", "spring", "--yes")
	s := i.serve()
	for n, want := range []string{"overloaded cpu", " ", "overloaded cpu", " "} {
		eventually(t, fmt.Sprintf("an answer is %q", want), func() (bool, string) {
			got := s.order("spring", fmt.Sprint("u", n), `{"sku":"s1"}`)
			if got.reason() == "overloaded cpu" && (got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "") {
				t.Errorf("%d %v", got.status, got.header)
			}
			return got.reason() == want, got.body
		})
	}
	if metrics := ask(t, nil, http.MethodGet, "http://"+s.admin+"/metrics", "").body; strings.Contains(metrics, `seckill_refused_total{reason="cpu"} 0`) {
		t.Error("who is turned away is not counted")
	}
}

// A Redis that hangs costs buyers milliseconds once it is known to be sick, and they
// are let in again when it is well.
func TestBreakerAnswersAtOnce(t *testing.T) {
	t.Parallel()
	own := stacktest.New(t)
	i := &installed{t: t, namespace: stacktest.Namespace(t)}
	i.environ = append(own.Env("etcd"), "SECKILL_NAMESPACE="+i.namespace, "SECKILL_LOCK_TTL=2s")
	i.must(exitDone, "migrate", "--yes")
	i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: spring\nskus:\n- {sku: s1, total: 1000, limit_per_user: 9}\n"))
	i.must(exitDone, "activity", "open", "spring", "--yes")
	s := i.serve()
	if got := s.order("spring", "ann", `{"sku":"s1"}`); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if err := own.Pause(stack.Redis); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the breaker opens", func() (bool, string) {
		got := s.order("spring", "bob", `{"sku":"s1"}`)
		return got.reason() == "not-ready gate-breaker", got.body
	})
	slowest := time.Duration(0)
	for n := range 50 {
		began := time.Now()
		if got := s.order("spring", fmt.Sprint("b", n), `{"sku":"s1"}`); got.reason() != "not-ready gate-breaker" || got.header.Get("Retry-After") == "" {
			t.Errorf("while it is open: %d %s", got.status, got.body)
		}
		slowest = max(slowest, time.Since(began))
	}
	if slowest > 900*time.Millisecond { // a call to the hanging Redis takes a second; this takes milliseconds
		t.Errorf("the slowest answer took %s", slowest)
	}
	if err := own.Resume(stack.Redis); err != nil {
		t.Fatal(err)
	}
	eventually(t, "buyers are let in again", func() (bool, string) {
		got := s.order("spring", "cid", `{"sku":"s1"}`)
		return got.status == http.StatusAccepted || got.status == http.StatusOK, got.body
	})
	var report consumer.Report
	i.answer(&report, "audit", "--wait", "30s")
	if !report.OK || !report.AtRest {
		t.Errorf("audit: %+v", report)
	}
}

// A thousand hostile requests of each kind leave the books as they were.
func TestThousandHostileRequests(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_PAYMENT_SECRETS=another key of sixteen bytes", "SECKILL_TICKET_SECRETS=a key of sixteen bytes", "SECKILL_TICKET_ACTIVITIES=gala")
	for _, name := range []string{"spring", "gala"} {
		i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: "+name+"\nskus:\n- {sku: s1, total: 9, limit_per_user: 9}\n"))
		i.must(exitDone, "activity", "open", name, "--yes")
	}
	s := i.serve()
	const good = `{"sku":"s1"}`
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 40 * time.Second}
	send := func(path, body string, headers ...string) int {
		return ask(t, client, http.MethodPost, "http://"+s.http+path, body, append([]string{"Content-Type", "application/json"}, headers...)...).status
	}
	var owned placed
	i.answer(&owned, "order", "place", "spring", "s1", "--user", "owner", "--yes")
	i.must(exitDone, "audit", "--wait", "30s")
	bought := owned.ID
	orders := func(activity string) string { return "/v1/activities/" + activity + "/orders" }
	kinds := map[string]func(n int) int{
		"body": func(n int) int {
			return send(orders("spring"), fmt.Sprintf(`{"sku":"s1","quantity":%de%d}`, n, n), "X-User-ID", "u")
		},
		"quantity": func(n int) int {
			return send(orders("spring"), fmt.Sprintf(`{"sku":"s1","quantity":%d}`, -n), "X-User-ID", "u")
		},
		"nobody":   func(int) int { return send(orders("spring"), good) },
		"identity": func(n int) int { return send(orders("spring"), good, "X-User-ID", strings.Repeat("u", 129+n)) },
		"two":      func(n int) int { return send(orders("spring"), good, "X-User-ID", "u", "X-User-ID", fmt.Sprint(n)) },
		"key": func(n int) int {
			return send(orders("spring"), good, "X-User-ID", "u", "Idempotency-Key", strings.Repeat("k", 256+n))
		},
		"ticket": func(n int) int {
			return send(orders("gala"), good, "X-User-ID", "u", "Seckill-Ticket", fmt.Sprint("a.b.", n))
		},
		"signed ticket": func(n int) int { // a right one, in the wrong hand, sale or time, or changed
			now := time.Now()
			ticket := admission.Ticket{Buyer: "u", Activity: "gala", From: now.Add(-time.Hour), Until: now.Add(time.Hour), Weight: 1 + n%100}
			secret := "a key of sixteen bytes"
			switch n % 5 {
			case 0:
				ticket.Buyer = fmt.Sprint("somebody-else-", n)
			case 1:
				ticket.Activity = "spring"
			case 2:
				ticket.Until = now.Add(-time.Minute)
			case 3:
				ticket.From = now.Add(time.Minute)
			case 4:
				secret = fmt.Sprint("another key of sixteen bytes ", n)
			}
			text, err := ticket.Sign([]byte(secret))
			if err != nil {
				t.Errorf("signed ticket %d: %v", n, err)
				return 0
			}
			return send(orders("gala"), good, "X-User-ID", "u", "Seckill-Ticket", text)
		},
		"payment": func(n int) int {
			return send("/v1/payments", fmt.Sprintf(`{"order_id":%q,"payment_id":"p%d","amount":%d}`, bought, n, n), "Seckill-Signature", fmt.Sprintf("t=%d,v1=%064x", time.Now().Unix(), n))
		},
		"signed": func(n int) int { // by one who has a key, and does not know what to write
			body := fmt.Sprintf([]string{`{"order_id":%q,"payment_id":"p%d","amount":%[2]d}`, `{"order_id":%q,"payment_id":%d,"amount":1}`, `{"order_id":%q,"amount":-%d}`, `[%q,%d]`}[n%4], bought, n+1)
			return send("/v1/payments", body, "Seckill-Signature", admission.SignPayment([]byte("another key of sixteen bytes"), []byte(body), time.Now()))
		},
		"cancel": func(n int) int {
			return send(orders("spring")+"/"+bought+"/cancel", good, "X-User-ID", fmt.Sprint("somebody-else-", n))
		},
		"path":  func(n int) int { return send(orders(fmt.Sprint("spring%00", n)), good, "X-User-ID", "u") },
		"large": func(n int) int { return send(orders("spring"), good+strings.Repeat(" ", 4096+n), "X-User-ID", "u") },
	}
	var crowd sync.WaitGroup
	for name, kind := range kinds {
		crowd.Go(func() {
			for n := range 1000 {
				if status := kind(n); status < 400 || status > 499 {
					t.Errorf("%s %d: %d", name, n, status)
				}
			}
		})
	}
	crowd.Wait()
	var report consumer.Report
	i.answer(&report, "audit", "--wait", "30s")
	if !report.OK || !report.AtRest || report.Log.Orders != 1 {
		t.Errorf("audit: %+v", report)
	}
	if n := i.query(`select string_agg(user_id || ' ' || status, ', ') from orders`); n != "owner confirmed" {
		t.Errorf("orders: %s", n)
	}
	if n := i.query(`select count(*)::text from payments`); n != "0" {
		t.Errorf("%s payments", n)
	}
	for _, a := range report.Activities {
		left := map[string]int64{"spring": 8, "gala": 9}[a.Activity]
		if u := a.SKUs[0]; u.Stock != left || u.GateStock == nil || *u.GateStock != left || u.Undecided != 0 {
			t.Errorf("%s: %+v", a.Activity, u)
		}
	}
}
