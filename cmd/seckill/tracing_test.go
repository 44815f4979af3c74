package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"seckill/admission"
)

// collector takes the traces of processes in, as an OpenTelemetry collector does.
type collector struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*spans.Span
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t}
	s := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collect.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s to the collector: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, resource := range sent.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.WriteHeader(http.StatusOK)
}

// all is what has come so far, by name.
func (c *collector) all() map[string][]*spans.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string][]*spans.Span{}
	for _, s := range c.spans {
		found[s.GetName()] = append(found[s.GetName()], s)
	}
	return found
}

// of is the steps of one trace, by name.
func (c *collector) of(trace string) map[string]*spans.Span {
	found := map[string]*spans.Span{}
	for name, list := range c.all() {
		for _, s := range list {
			if hex.EncodeToString(s.GetTraceId()) == trace {
				found[name] = s
			}
		}
	}
	return found
}

func attributeOf(s *spans.Span, key string) string {
	i := slices.IndexFunc(s.GetAttributes(), func(a *common.KeyValue) bool { return a.GetKey() == key })
	if i < 0 {
		return ""
	}
	return s.GetAttributes()[i].GetValue().GetStringValue()
}

// header of the newest message of a stream of the installation.
func (i *installation) newestHeader(stream string) nats.Header {
	i.t.Helper()
	nc, err := nats.Connect(i.setting("SECKILL_NATS_URL"))
	must(i.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(i.t, err)
	s, err := js.Stream(i.t.Context(), strings.ToUpper(i.setting("SECKILL_NAMESPACE"))+stream)
	must(i.t, err)
	m, err := s.GetMsg(i.t.Context(), s.CachedInfo().State.LastSeq)
	must(i.t, err)
	return m.Header
}

// way is the steps of an order, each with the one that it is within.
var way = map[string]string{
	"ask": "", "batch": "ask", "reserve": "batch", "append": "batch",
	"settle": "append", "decide": "settle", "tell": "settle", "event": "decide",
}

// One order's trace has every step of its way, from the gateway's span on, through the
// log's message, to the event that the shop gets. In a crowd, batches link to the asks.
func TestTraceOfAnOrder(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	i := newInstallation(t, "etcd")
	p := i.serve("OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_BSP_SCHEDULE_DELAY=100")
	i.open(p, 100)
	const trace, gateway = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	status, body, err := call(http.MethodPost, p.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{
		"X-User-ID": "ann-hush", "Idempotency-Key": "key-hush", "Traceparent": "00-" + trace + "-" + gateway + "-01",
	})
	var order struct {
		ID string `json:"order_id"`
	}
	if err != nil || status != http.StatusAccepted || json.Unmarshal(body, &order) != nil {
		t.Fatalf("order: %d %s (%v)", status, body, err)
	}
	until(t, "the trace has the event", func() bool { return len(c.of(trace)) == len(way) })
	steps := c.of(trace)
	for name, within := range way {
		parent := gateway
		if within != "" {
			parent = hex.EncodeToString(steps[within].GetSpanId())
		}
		if s := steps[name]; hex.EncodeToString(s.GetParentSpanId()) != parent || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStatus().GetCode() != 0 {
			t.Errorf("step %s is not within %q: %v", name, within, s)
		}
	}
	for name, want := range map[string]string{"ask": "accepted", "event": "confirmed"} {
		s := steps[name]
		if attributeOf(s, "seckill.order") != order.ID || attributeOf(s, "seckill.outcome")+attributeOf(s, "seckill.status") != want {
			t.Errorf("step %s: %v", name, s)
		}
	}
	for stream, within := range map[string]string{"_ORDERS": "append", "_EVENTS": "event"} {
		want := fmt.Sprintf("00-%s-%x-01", trace, steps[within].GetSpanId())
		if got := i.newestHeader(stream).Get("traceparent"); got != want {
			t.Errorf("the message in %s goes on from %q, want %q", stream, got, want)
		}
	}
	crowd := newCrowd(t, p)
	crowd.buy(60)
	i.audit(61)
	until(t, "every order has its event", func() bool { return len(c.all()["event"]) == 61 })
	c.checkLinks(61)
	for _, secret := range []string{"ann-hush", "key-hush", "buyer-7"} {
		if bytes.Contains(c.raw.Bytes(), []byte(secret)) {
			t.Errorf("%s is in a trace", secret)
		}
	}
}

// What changes an order later is traced to its event: cancellations of buyers and
// operators, payments, late ones through the new order that they buy, and expiry. So
// are leases, and none of that within another.
func TestTraceOfChanges(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	i := newInstallation(t, "etcd")
	p := i.serve("OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_BSP_SCHEDULE_DELAY=100")
	traced := 0
	// send sends a request in a trace of its own.
	send := func(address, path, body string, headers ...string) (answer []byte, trace string) {
		t.Helper()
		traced++
		trace = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", traced)
		header := map[string]string{"Traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}
		for i := 0; i < len(headers); i += 2 {
			header[headers[i]] = headers[i+1]
		}
		status, answer, err := call(http.MethodPost, address+path, body, header)
		if err != nil || status > http.StatusAccepted {
			t.Fatalf("%s: %d %s (%v)", path, status, answer, err)
		}
		return answer, trace
	}
	order := func(activity, user, status string) string {
		t.Helper()
		var o struct {
			ID string `json:"order_id"`
		}
		answer, _ := send(p.http, "/v1/activities/"+activity+"/orders", `{"sku":"s1"}`, "X-User-ID", user)
		must(t, json.Unmarshal(answer, &o))
		until(t, "the order is "+status, func() bool {
			_, body, err := call(http.MethodGet, p.http+"/v1/activities/"+activity+"/orders/"+o.ID, "", map[string]string{"X-User-ID": user})
			return err == nil && strings.Contains(string(body), `"status":"`+status+`"`)
		})
		return o.ID
	}
	pay := func(id string) string {
		t.Helper()
		body := `{"order_id":"` + id + `","payment_id":"` + id + `","amount":1}`
		_, trace := send(p.http, "/v1/payments", body, "Seckill-Signature", admission.SignPayment([]byte(i.setting("SECKILL_PAYMENT_SECRETS")), []byte(body), time.Now()))
		return trace
	}
	// check wants the event of an order's status within a step of the trace, and that
	// step within the gateway's.
	check := func(trace, step, id, status string) {
		t.Helper()
		until(t, step+" of "+id+" has its event", func() bool { return c.of(trace)["event"] != nil && c.of(trace)[step] != nil })
		steps := c.of(trace)
		s, event := steps[step], steps["event"]
		if attributeOf(s, "seckill.order") != id || hex.EncodeToString(s.GetParentSpanId()) != "00f067aa0ba902b7" || s.GetStatus().GetCode() != 0 {
			t.Errorf("step %s: %v", step, s)
		}
		if attributeOf(event, "seckill.order") != id || attributeOf(event, "seckill.status") != status || !bytes.Equal(event.GetParentSpanId(), s.GetSpanId()) {
			t.Errorf("the event of %s: %v", step, event)
		}
	}
	for activity, window := range map[string]string{"a1": "1h", "a2": "1s"} {
		i.operate(p, http.MethodPut, "/admin/v1/activities/"+activity, `{"title":"t","payment_window":"`+window+`","skus":[{"sku":"s1","total":9,"limit_per_user":1,"price":1}]}`)
		i.operate(p, http.MethodPost, "/admin/v1/activities/"+activity+"/open", "")
	}
	id := order("a1", "ann", "pending_payment")
	_, trace := send(p.http, "/v1/activities/a1/orders/"+id+"/cancel", "", "X-User-ID", "ann")
	check(trace, "cancel", id, "cancelled")
	id = order("a1", "bob", "pending_payment")
	check(pay(id), "pay", id, "paid")
	_, trace = send(p.admin, "/admin/v1/orders/"+id+"/cancel", `{"reason":"fraud"}`, "Authorization", "Bearer "+i.setting("SECKILL_ADMIN_TOKEN"))
	check(trace, "cancel", id, "cancelled")

	id = order("a2", "cid", "expired")
	late := pay(id)
	until(t, "the late payment bought another order", func() bool { s := c.of(late); return s["batch"] != nil && s["pay"] != nil })
	if s := c.of(late); !bytes.Equal(s["batch"].GetParentSpanId(), s["pay"].GetSpanId()) {
		t.Errorf("what a late payment buys is not within it: %v", s)
	}
	expiry := c.all()["expire"]
	if len(expiry) != 1 || len(expiry[0].GetParentSpanId()) > 0 {
		t.Fatalf("one order expired, in %v", expiry)
	}
	round := hex.EncodeToString(expiry[0].GetTraceId())
	until(t, "the expired order has its event", func() bool { return c.of(round)["event"] != nil })
	event := c.of(round)["event"]
	if !bytes.Equal(event.GetParentSpanId(), expiry[0].GetSpanId()) || attributeOf(event, "seckill.order") != id || attributeOf(event, "seckill.status") != "expired" {
		t.Errorf("the event of the expired order: %v", event)
	}
	p.signal(15)
	<-p.ended
	for _, name := range []string{"lock.acquire", "lock.hold"} {
		locks := map[string]bool{}
		for _, s := range c.all()[name] {
			locks[attributeOf(s, "seckill.lock.name")] = true
			if len(s.GetParentSpanId()) > 0 || len(c.of(hex.EncodeToString(s.GetTraceId()))) > 1 {
				t.Errorf("%s is not alone in its trace: %v", name, s)
			}
		}
		for _, lock := range []string{"partition/0", "job/expiry"} {
			if !locks[lock] {
				t.Errorf("%s of %s is not traced: there are %v", name, lock, slices.Collect(maps.Keys(locks)))
			}
		}
	}
}

// checkLinks: each accepted ask is linked by one batch and links to it; each message
// that was settled, to its batch.
func (c *collector) checkLinks(asks int) {
	c.t.Helper()
	all := c.all()
	linked := func(names string) map[string]string {
		by := map[string]string{}
		for _, s := range all[names] {
			for _, l := range s.GetLinks() {
				by[string(l.GetSpanId())] = string(s.GetSpanId())
			}
		}
		return by
	}
	batches, settled := linked("batch"), linked("settle")
	n := 0
	for _, s := range all["ask"] {
		if attributeOf(s, "seckill.outcome") != "accepted" {
			continue
		}
		n++
		batch := batches[string(s.GetSpanId())]
		if batch == "" || !slices.ContainsFunc(s.GetLinks(), func(l *spans.Span_Link) bool { return string(l.GetSpanId()) == batch }) {
			c.t.Errorf("ask %x and its batch %x do not link", s.GetSpanId(), batch)
		}
	}
	if n != asks {
		c.t.Errorf("%d asks were accepted, want %d", n, asks)
	}
	for _, s := range all["append"] {
		if settled[string(s.GetSpanId())] == "" {
			c.t.Errorf("no settlement goes on from append %x; there are %d of %v", s.GetSpanId(), len(all["settle"]), slices.Collect(maps.Keys(all)))
		}
	}
}

// A traceparent of a stranger is not gone on from, and without an endpoint nothing is
// traced at all. A collector that is away holds nobody up.
func TestTracesAreOff(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	p := i.serve("OTEL_TRACES_SAMPLER=always_on")
	i.open(p, 2)
	newCrowd(t, p).buy(1)
	i.audit(1)
	for _, stream := range []string{"_ORDERS", "_EVENTS"} {
		until(t, "there is a message in "+stream, func() bool { return i.newestHeader(stream) != nil })
		if got := i.newestHeader(stream).Get("traceparent"); got != "" {
			t.Errorf("a message in %s has a trace: %s", stream, got)
		}
	}
	p.signal(15)
	<-p.ended
	p = i.serve("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "SECKILL_AUTH_TRUSTED_PROXIES=10.0.0.0/8", "SECKILL_AUTH_MODE=jwt",
		"SECKILL_AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef")
	began := time.Now()
	status, _, err := call(http.MethodPost, p.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	if status != http.StatusUnauthorized || err != nil {
		t.Errorf("a stranger: %d (%v)", status, err)
	}
	p.signal(15)
	<-p.ended
	if p.cmd.ProcessState.ExitCode() != 0 || time.Since(began) > drainTime+5*time.Second {
		t.Errorf("without its collector the process ended with %d after %v", p.cmd.ProcessState.ExitCode(), time.Since(began))
	}
}
