package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/admission"
)

// gateway is nginx with the example of a configuration. What is changed of it are the
// places: addresses, certificate, folders. Buyers log in as the value of their cookie.
func gateway(t *testing.T, seckill string) (url string, client *http.Client) {
	t.Helper()
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := r.Cookie("session")
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-User-ID", session.Value)
	}))
	t.Cleanup(login.Close)
	trust, dir, address := newAuthority(t), t.TempDir(), freeAddress(t)
	cert, key := trust.issue("gateway", 7)
	text, err := os.ReadFile("../../deploy/nginx.conf")
	must(t, err)
	conf := string(text)
	for _, change := range [][2]string{
		{"listen 8443 ssl;", "listen " + address + " ssl;"},
		{"/etc/seckill/tls.pem", cert},
		{"/etc/seckill/tls-key.pem", key},
		{"server 127.0.0.1:8080 ", "server " + seckill + " "},
		{"http://127.0.0.1:9000/", login.URL + "/"},
		{"http {\n", fmt.Sprintf("pid %[1]s/pid;\nhttp {\nclient_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n", dir)},
	} {
		if strings.Count(conf, change[0]) != 1 {
			t.Fatalf("%q does not stand once in deploy/nginx.conf", change[0])
		}
		conf = strings.Replace(conf, change[0], change[1], 1)
	}
	path := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(path, []byte(conf), 0o600))
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	nginx := exec.Command(program, "-e", "stderr", "-p", dir, "-c", path, "-g", "daemon off;")
	var said bytes.Buffer
	nginx.Stderr = &said
	must(t, nginx.Start())
	t.Cleanup(func() {
		_ = nginx.Process.Signal(os.Interrupt)
		_ = nginx.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust.pool}, DisableKeepAlives: true}
	client = &http.Client{Timeout: 40 * time.Second, Transport: transport}
	eventually(t, "nginx listens", func() (bool, string) {
		c, err := tls.Dial("tcp", address, transport.TLSClientConfig)
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, ""
	})
	return "https://" + address, client
}

// A sale through the example of a gateway: it says who the buyer is and where he comes
// from, whatever he says himself; the payment service needs no session; a flood stays outside.
func TestGateway(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	const secret = "another key of sixteen bytes"
	i.environ = append(i.environ, "SECKILL_PAYMENT_SECRETS="+secret, "SECKILL_DENY_LIST="+write(t, "address 203.0.113.9\n"))
	i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: spring\npayment_window: 1h\nskus:\n- {sku: s1, total: 9, limit_per_user: 1, price: 5}\n"))
	i.must(exitDone, "activity", "open", "spring", "--yes")
	s := i.serve()
	url, client := gateway(t, s.http)
	const orders, one = "/v1/activities/spring/orders", `{"sku":"s1"}`
	post := func(path, body string, headers ...string) asked {
		return ask(t, client, http.MethodPost, url+path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
	}
	bought := post(orders, one, "Cookie", "session=ann", "X-User-ID", "eve", "X-Forwarded-For", "203.0.113.9")
	if bought.status != http.StatusAccepted {
		t.Fatalf("ann buys: %d %s", bought.status, bought.body)
	}
	eventually(t, "the order is ann's, and waits for its payment", func() (bool, string) {
		who := i.query(`select coalesce(string_agg(user_id || ' ' || status, ', '), '') from orders`)
		return who == "ann pending_payment", who
	})
	place := bought.header.Get("Location")
	id := place[strings.LastIndex(place, "/")+1:]
	payment := fmt.Sprintf(`{"order_id":%q,"payment_id":"p1","amount":5}`, id)
	for _, tc := range []struct {
		what string
		got  asked
		want int
	}{
		{"a stranger's order", post(orders, one, "X-User-ID", "eve"), http.StatusUnauthorized},
		{"another's order", ask(t, client, http.MethodGet, url+place, "", "Cookie", "session=bob"), http.StatusNotFound},
		{"one's own order", ask(t, client, http.MethodGet, url+place, "", "Cookie", "session=ann"), http.StatusOK},
		{"a large body", post(orders, one+strings.Repeat(" ", 5000), "Cookie", "session=bob"), http.StatusRequestEntityTooLarge},
		{"the operators' routes", ask(t, client, http.MethodGet, url+"/admin/v1/activities/spring", "", "Cookie", "session=ann"), http.StatusNotFound},
		{"an unsigned payment", post("/v1/payments", payment, "Cookie", "session=ann"), http.StatusUnauthorized},
		{"a payment", post("/v1/payments", payment, "Seckill-Signature", admission.SignPayment([]byte(secret), []byte(payment), time.Now())), http.StatusOK},
	} {
		if tc.got.status != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.what, tc.got.status, tc.want, tc.got.body)
		}
	}
	// Asked at once, more than the rate lets through: nginx itself refuses.
	var refused atomic.Int64
	eventually(t, "a flood is refused outside", func() (bool, string) {
		var crowd sync.WaitGroup
		for range 15 {
			crowd.Go(func() {
				got := post(orders, one, "Cookie", "session=ann")
				if got.status == http.StatusTooManyRequests && strings.Contains(got.body, "nginx") {
					refused.Add(1)
				}
			})
		}
		crowd.Wait()
		return refused.Load() > 0, "none"
	})
}
