package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/golang-jwt/jwt/v5"

	"seckill/admission"
)

// gateway stands before the service as a shop's does: it says who the buyer is, and
// may turn orders away.
type gateway struct {
	*httptest.Server
	refuse atomic.Pointer[admission.Problem] // of every order, until it is nil
	orders atomic.Int64                      // that were asked for
}

func (s *sale) gateway(user string) *gateway {
	s.t.Helper()
	to, err := url.Parse(s.http.URL)
	must(s.t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("X-User-ID")
		if user != "" {
			r.Header.Set("X-User-ID", user)
		}
		if r.Method == http.MethodPost {
			g.orders.Add(1)
			if p := g.refuse.Load(); p != nil {
				p.Write(w)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	s.t.Cleanup(g.Close)
	return g
}

// browser starts Chromium without a window; it ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.DisableGPU, chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start a browser: %v; install chromium, as deploy/stack/install.sh --race does", err)
	}
	return ctx
}

// tab is one buyer's view of a page.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	strange []string // errors on the console, requests to elsewhere
}

// tabOptions of a tab. Zero values: a phone, light.
type tabOptions struct {
	width int64
	dark  bool
}

func open(t *testing.T, browser context.Context, address string, o tabOptions) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancelTimeout := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancelTimeout)
	if o.width == 0 {
		o.width = 390
	}
	scheme := "light"
	if o.dark {
		scheme = "dark"
	}
	b := &tab{t: t, ctx: ctx}
	here, err := url.Parse(address)
	must(t, err)
	must(t, chromedp.Listen(ctx, func(event any) { b.hear(event, here.Host) }))
	size := []chromedp.EmulateViewportOption{}
	if o.width < 600 {
		size = append(size, chromedp.EmulatePortrait, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(chromedp.EmulateViewport(o.width, 844, size...))
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	must(t, err)
	b.do(chromedp.Navigate(address))
	return b
}

func (b *tab) hear(event any, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		// The browser notes answers such as 409 and 503 as well; they are part of the game.
		if e.Entry.Source != cdplog.EntrySourceNetwork {
			b.strange = append(b.strange, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.strange = append(b.strange, text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Host != host {
			b.strange = append(b.strange, "a request to "+e.Request.URL)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
}

func value[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatalf("browser: %v", err)
	}
	return v
}

// says waits until the page's text has all of the words.
func (b *tab) says(words ...string) {
	b.t.Helper()
	text := ""
	defer func() {
		if b.t.Failed() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Log("on the console:", b.strange)
		}
	}()
	eventually(b.t, fmt.Sprintf("the page says %q", words), func() (bool, string) {
		text = value(b, chromedp.Evaluate[string](`document.body.innerText`))
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false, text
			}
		}
		return true, ""
	})
}

func (b *tab) click() {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(`.buy:enabled`)))
}

// button is its words, with whether it can be pressed; empty: there is none.
func (b *tab) button() (text string, enabled bool) {
	b.t.Helper()
	got := value(b, chromedp.Evaluate[struct {
		Text    string
		Enabled bool
	}](`(() => { const b = document.querySelector('.buy'); return b && !b.hidden ? {Text: b.textContent, Enabled: !b.disabled} : {Text: '', Enabled: false} })()`))
	return got.Text, got.Enabled
}

// sound checks what every state of the page must be: readable, usable, within its
// width, of this address alone. It leaves a picture among the test's artifacts.
func (b *tab) sound(name string) {
	b.t.Helper()
	faults := value(b, chromedp.Evaluate[[]string](soundness))
	b.mu.Lock()
	faults = append(faults, b.strange...)
	b.mu.Unlock()
	for _, fault := range faults {
		b.t.Errorf("%s: %s", name, fault)
	}
	picture := value(b, chromedp.FullScreenshot(100))
	must(b.t, os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), picture, 0o644))
}

// soundness lists what is wrong with the page as it stands.
const soundness = `(() => {
  const faults = [];
  const shown = (e) => e.checkVisibility() && e.getClientRects().length;
  if (document.documentElement.scrollWidth > innerWidth) faults.push('wider than the screen: ' + document.documentElement.scrollWidth);
  if (!document.documentElement.lang || !document.title) faults.push('no language or no title');
  if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1');
  for (const e of document.querySelectorAll('button, select')) {
    if (!shown(e)) continue;
    const r = e.getBoundingClientRect();
    if (r.height < 44) faults.push(e.tagName + ' is ' + r.height + ' px high');
    if (!e.textContent.trim()) faults.push(e.tagName + ' has no name');
    if (e.tagName === 'SELECT' && !e.labels.length) faults.push('a select has no label');
  }
  const rgb = (s) => s.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((n, v, i) => n + v * [.2126, .7152, .0722][i], 0);
  const paper = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  for (const e of document.querySelectorAll('body *')) {
    if (!shown(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(paper(e))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) faults.push('contrast ' + contrast.toFixed(2) + ' of ' + e.className + ' ' + e.textContent.slice(0, 40));
  }
  return faults;
})()`

func TestBuyerPage(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	ctx := browser(t)
	ann, bob, cid := s.gateway("ann"), s.gateway("bob"), s.gateway("cid")
	s.put("summer", admission.Activity{Title: "Summer sale", StartsAt: time.Now().Add(time.Hour), SKUs: []admission.SKU{units("lamp", 2, 1)}})
	s.openGate("summer")
	early := open(t, ctx, ann.URL+"/shop/summer", tabOptions{})
	early.says("Summer sale", "Starts in", "59:")
	if text, enabled := early.button(); enabled {
		t.Errorf("before the start, the button %q can be pressed", text)
	}
	early.sound("before-390-light")
	early = open(t, ctx, bob.URL+"/shop/summer?currency=EUR", tabOptions{width: 1280, dark: true})
	early.says("€1.00")
	early.sound("before-wide-dark")

	soon := time.Now().Add(10 * time.Second)
	s.put("spring", admission.Activity{
		Title: "Spring sale", StartsAt: soon, EndsAt: soon.Add(time.Hour), PaymentWindow: 10 * time.Minute, SKUs: []admission.SKU{units("lamp", 2, 1)},
	})
	s.openGate("spring")
	anns := open(t, ctx, ann.URL+"/shop/spring", tabOptions{})
	bobs := open(t, ctx, bob.URL+"/shop/spring?currency=EUR", tabOptions{width: 1280, dark: true})
	cids := open(t, ctx, cid.URL+"/shop/spring", tabOptions{dark: true})
	anns.says("Spring sale")
	eventually(t, "the button wakes at the start", func() (bool, string) { text, enabled := anns.button(); return enabled, text })
	anns.sound("open-390-light")
	anns.click()
	anns.says("In line")
	anns.sound("in-line-390-light")
	s.startWorker(workerOptions{})
	anns.says("Reserved for you", "Pay in the shop before", "Time left: 09:")
	anns.sound("reserved-390-light")
	if text, _ := anns.button(); text != "" {
		t.Errorf("who has all that he may is offered %q", text)
	}
	s.exec(`update orders set status = 'paid' where user_id = 'ann'`)
	anns.says("It is yours", "paid")
	anns.sound("paid-390-light")
	anns.do(chromedp.Reload())
	anns.says("It is yours")

	bobs.click()
	bobs.says("Reserved for you")
	bobs.sound("reserved-wide-dark")
	cids.says("Sold out", "None left")
	cids.sound("sold-out-390-dark")
	if n := queryInt(t, s, `select count(*) from orders`); n != 2 {
		t.Errorf("%d orders for two buyers", n)
	}
	s.exec(`update orders set status = 'expired' where user_id = 'bob'`)
	bobs.says("Not paid in time")
	bobs.sound("expired-wide-dark")
}

// The button sends three requests, and then rests; what is not known is said so, and
// asking again gives the one order.
func TestBuyerPageWhenBusy(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	ctx := browser(t)
	s.open("a1", units("lamp", 5, 3))
	g := s.gateway("ann")
	g.refuse.Store(&admission.Problem{Code: admission.CodeOverloaded, Status: 503, Detail: "busy"})
	b := open(t, ctx, g.URL+"/shop/a1", tabOptions{})
	b.says("5 left")
	for n := range 3 {
		b.click()
		b.says("Very busy")
		eventually(t, "the request is answered", func() (bool, string) { return g.orders.Load() == int64(n+1), "" })
	}
	b.says("Next try in")
	if _, enabled := b.button(); enabled {
		t.Error("the button can be pressed a fourth time")
	}
	b.sound("busy-390-light")
	g.refuse.Store(&admission.Problem{Code: admission.CodeUnknown, Status: 503, Detail: "unknown"})
	b.click() // when it wakes
	b.says("Not sure yet")
	b.sound("not-sure-390-light")
	g.refuse.Store(nil)
	b.click()
	b.says("It is yours", "Buy more")
	b.sound("yours-390-light")
	if n := queryInt(t, s, `select count(*) from orders`); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// Whatever refuses, the page says what it means for the buyer, in words of its own: no
// code is on it, and nothing is called ordered or not ordered that may be otherwise.
func TestBuyerPageSaysEveryRefusal(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	ctx := browser(t)
	s.open("a1", units("lamp", 5, 3))
	g := s.gateway("ann")
	refuse := func(status int, code admission.Code) {
		g.refuse.Store(&admission.Problem{Code: code, Status: status, Detail: "x"})
	}
	b := open(t, ctx, g.URL+"/shop/a1", tabOptions{})
	for _, c := range []struct {
		code   admission.Code
		status int
		words  string
	}{
		{admission.CodeTicketRequired, 403, "You need a ticket"},
		{admission.CodeTicketInvalid, 403, "Your ticket is not valid"},
		{admission.CodeDenied, 403, "Not possible for you"},
		{admission.CodeRateLimited, 429, "Too many tries"},
		{admission.CodeNotReady, 503, "One moment"},
		{admission.CodePaused, 503, "The sale is paused"},
		{admission.CodeInternal, 500, "Not sure yet"},
	} {
		refuse(c.status, c.code)
		b.do(chromedp.Reload())
		b.says("5 left")
		b.click()
		b.says(c.words)
		b.sound(string(c.code) + "-390-light")
	}
	source, err := os.ReadFile("../admission/errors.go")
	must(t, err)
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "([a-z-]+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 25 {
		t.Fatalf("only %d codes are found", len(codes))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`void import('/shop/words.js').then((w) => { window.words = w })`))
	eventually(t, "the words are there", func() (bool, string) { return value(b, chromedp.Evaluate[bool](`!!window.words`)), "" })
	for _, code := range codes {
		for _, status := range []int{429, 500, 502, 503} {
			said := value(b, chromedp.Evaluate[[]string](fmt.Sprintf(`window.words.ofRefusal({code: %q, status: %d})`, code[1], status)))
			text := strings.Join(said[1:], " ")
			if said[1] == "" || said[2] == "" || strings.Contains(text, "-") || strings.Contains(text, "undefined") {
				t.Errorf("%d %s: the page says %q", status, code[1], said)
			}
		}
	}
	for _, code := range []string{"undefined", "offline", "internal"} { // of a proxy, of nobody
		if said := value(b, chromedp.Evaluate[[]string](fmt.Sprintf(`window.words.ofRefusal({code: %q, status: 502})`, code))); said[1] != "Not sure yet" {
			t.Errorf("502 %s: the page says %q", code, said)
		}
	}
}

// Who paid too late sees the order that replaces the expired one, or that the money
// goes back; without asking for it.
func TestBuyerPageOfLatePayments(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	ctx := browser(t)
	orders := s.toPay(2, 1, "ann", "bob")
	s.expire(orders[0].order)
	anns := open(t, ctx, s.gateway("ann").URL+"/shop/a1", tabOptions{})
	anns.says("Not paid in time", "you get a new order, or your money back")
	anns.sound("expired-390-light")
	if got := s.pay(orders[0].order, "p1", 100); got.status != 200 {
		t.Fatalf("a late payment: %s %s", got, got.body)
	}
	anns.says("It is yours", "in place of one that was paid late")
	anns.sound("replaced-390-light")

	s.expire(orders[1].order)
	s.sellsAgain("cid") // the last unit
	if got := s.pay(orders[1].order, "p2", 100); got.status != 200 {
		t.Fatalf("a late payment: %s %s", got, got.body)
	}
	bobs := open(t, ctx, s.gateway("bob").URL+"/shop/a1", tabOptions{dark: true})
	bobs.says("Your money goes back", "nothing was left")
	bobs.sound("refund-due-390-dark")
	s.exec(`update orders set status = 'cancelled', refund = 'due' where user_id = 'cid'`)
	cids := open(t, ctx, s.gateway("cid").URL+"/shop/a1", tabOptions{width: 1280})
	cids.says("Cancelled", "Your money goes back to you")
	cids.sound("cancelled-refund-wide-light")
}

func TestBuyerPageWhenNotSelling(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	ctx := browser(t)
	s.open("paused", units("lamp", 5, 1))
	s.put("ended", admission.Activity{Title: "Winter sale", StartsAt: time.Now().Add(-2 * time.Hour), EndsAt: time.Now().Add(-time.Hour), SKUs: []admission.SKU{units("lamp", 5, 1)}})
	s.openGate("ended")
	s.open("open", units("lamp", 5, 1), units("chair-with-a-name-that-is-as-long-as-names-may-be-in-this-system", 7, 2))
	_, err := s.ledger.SetState(t.Context(), "paused", admission.Paused)
	must(t, err)
	ann, nobody := s.gateway("ann"), s.gateway("")
	for page, words := range map[string][]string{
		ann.URL + "/shop/paused":    {"The sale is paused.", "Not on sale"},
		ann.URL + "/shop/ended":     {"Winter sale", "The sale is over.", "Not on sale"},
		ann.URL + "/shop/elsewhere": {"There is no such sale."},
	} {
		b := open(t, ctx, page, tabOptions{})
		b.says(words...)
		b.sound(filepath.Base(page) + "-390-light")
	}
	b := open(t, ctx, nobody.URL+"/shop/open", tabOptions{})
	b.says("5 left", "7 left")
	b.sound("two-390-light")
	b.click()
	b.says("Sign in first")
	b.sound("sign-in-390-light")
	wide := open(t, ctx, ann.URL+"/shop/open?currency=JPY", tabOptions{width: 1280})
	wide.says("¥100")
	wide.sound("two-wide-light")
}

// A shop with tokens links to the page with one, and with a ticket where the sale needs
// it; both stay in this tab.
func TestBuyerPageWithToken(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.open("a1", units("lamp", 5, 1))
	secret := []byte("a secret of thirty-two bytes or so")
	web := httptest.NewServer(admission.NewHandler(s.service, admission.HTTPConfig{
		Identify: admission.JWTIdentity(admission.JWTConfig{Secret: secret}), Timeout: 15 * time.Second, Version: "test", Logger: s.logger,
		Funnel: admission.NewFunnel(admission.FunnelConfig{TicketSecrets: [][]byte{secret}, TicketFor: []string{"a1"}}),
	}))
	t.Cleanup(web.Close)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(secret)
	must(t, err)
	ticket, err := admission.Ticket{Buyer: "ann", Activity: "a1", From: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Hour), Weight: 1}.Sign(secret)
	must(t, err)
	b := open(t, browser(t), web.URL+"/shop/a1#token="+token+"&ticket="+ticket, tabOptions{})
	b.says("5 left")
	b.click()
	b.says("It is yours")
	if address := value(b, chromedp.Location()); strings.Contains(address, token) || strings.Contains(address, ticket) {
		t.Errorf("token or ticket are still in the address %s", address)
	}
	b.do(chromedp.Reload())
	b.says("It is yours")
	b.sound("token-390-light")
	if n := queryInt(t, s, `select count(*) from orders where user_id = 'ann'`); n != 1 {
		t.Errorf("ann has %d orders", n)
	}
}

func TestBuyerPageIsWhole(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	for path, kind := range map[string]string{
		"/shop/a1": "text/html", "/shop/page.css": "text/css", "/shop/page.js": "text/javascript",
		"/shop/api.js": "text/javascript", "/shop/card.js": "text/javascript", "/shop/words.js": "text/javascript",
	} {
		a := s.get(path, "ann")
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), kind) || !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		if strings.Contains(a.body, "://") {
			t.Errorf("%s names another address", path)
		}
	}
	for _, path := range []string{"/shop/a.b", "/shop/", "/shop/page.html"} {
		if a := s.get(path, "ann"); a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	var spec struct{ Paths map[string]json.RawMessage }
	must(t, json.Unmarshal([]byte(s.get("/openapi.json", "").body), &spec))
	if spec.Paths["/shop/{activity}"] == nil || spec.Paths["/v1/activities/{activity}/orders/{id}/events"] == nil {
		t.Error("page or stream are not in the document")
	}
}
