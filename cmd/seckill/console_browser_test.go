package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screen is an operator's view of the console in a real Chromium without a window.
type screen struct {
	t   *testing.T
	ctx context.Context
	axe string // the engine that finds what not everybody can use

	mu      sync.Mutex
	strange []string // exceptions, errors on the browser's console, requests to elsewhere
}

// openConsole shows the console of a process; the browser ends with the test.
func (p *process) openConsole() *screen {
	t := p.t
	t.Helper()
	axe, err := os.ReadFile("testdata/axe.min.js")
	must(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.DisableGPU, chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start a browser: %v; install chromium, as deploy/stack/install.sh --race does", err)
	}
	s := &screen{t: t, ctx: ctx, axe: string(axe)}
	here, err := url.Parse(p.admin)
	must(t, err)
	must(t, chromedp.Listen(ctx, func(event any) { s.hear(event, here.Host) }))
	s.shape(1440, "light")
	s.do(chromedp.Navigate(p.admin + "/console"))
	return s
}

func (s *screen) hear(event any, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Source != cdplog.EntrySourceNetwork { // answers such as 401 are part of the game
			s.strange = append(s.strange, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		s.strange = append(s.strange, text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Host != host {
			s.strange = append(s.strange, "a request to "+e.Request.URL)
		}
	}
}

func (s *screen) do(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		s.t.Fatalf("browser: %v", err)
	}
}

// evaluate is the value of a JavaScript expression, which may be a promise.
func evaluate[T any](s *screen, expression string, args ...any) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		s.t.Fatalf("browser: %v", err)
	}
	return v
}

// shape gives the window a width, and the system a colour scheme.
func (s *screen) shape(width int64, scheme string) {
	s.t.Helper()
	size := []chromedp.EmulateViewportOption{}
	if width < 600 {
		size = append(size, chromedp.EmulatePortrait, chromedp.EmulateMobile)
	}
	s.do(chromedp.EmulateViewport(width, 900, size...))
	_, err := chromedp.Call(s.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	must(s.t, err)
}

// says waits until the page's text has all of the words.
func (s *screen) says(words ...string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the console says %q", words), func() (bool, string) {
		text := evaluate[string](s, `document.body.innerText`)
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false, text
			}
		}
		return true, ""
	})
}

// equation waits until the stock of the sale that is shown reads so.
func (s *screen) equation(total, live, flight, gate int) {
	s.t.Helper()
	want := fmt.Sprintf("total=%d live=%d undecided=%d back=0 gate=%d", total, live, flight, gate)
	eventually(s.t, "the stock equation is "+want, func() (bool, string) {
		got := evaluate[string](s, `[...document.querySelectorAll('[data-term]')].map((e) => e.dataset.term + '=' + e.textContent).join(' ')`)
		return got == want && evaluate[bool](s, `document.querySelector('.sum .verdict').innerText.includes('Adds up')`), got
	})
}

// press finds the control by its words, and uses the keyboard on it.
func (s *screen) press(words string) {
	s.t.Helper()
	s.focus(words)
	s.do(chromedp.KeyEvent(kb.Enter))
}

// focus waits for a button or a link whose text begins so; what stands in a dialog first.
func (s *screen) focus(words string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("there is %q to press", words), func() (bool, string) {
		return evaluate[bool](s, `(() => {
			const all = [...document.querySelectorAll('dialog button'), ...document.querySelectorAll('main button, main a, header a, header button')];
			const found = all.find((e) => e.checkVisibility() && !e.disabled && e.textContent.replace(/\s+/g, ' ').trim().startsWith(%q));
			found?.focus();
			return found !== undefined && document.activeElement === found;
		})()`, words), evaluate[string](s, `document.body.innerText`)
	})
}

// fill types into the field of that name.
func (s *screen) fill(name, text string) {
	s.t.Helper()
	s.do(chromedp.WaitVisible(chromedp.CSS(`input[name=` + name + `]`)))
	evaluate[bool](s, `(() => { const e = document.querySelector('input[name=%s]'); e.focus(); e.select(); return true })()`, name)
	s.do(chromedp.KeyEvent(text))
}

// answer fills the question that stands on the screen, whose title has to begin so,
// and says yes.
func (s *screen) answer(title, reason, verb string) {
	s.t.Helper()
	s.asked(title)
	s.fill("reason", reason)
	s.press(verb)
	eventually(s.t, "the question is gone", func() (bool, string) {
		return evaluate[bool](s, `document.querySelector('dialog') === null`), evaluate[string](s, `document.body.innerText`)
	})
}

// asked waits for a question with this title.
func (s *screen) asked(title string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the console asks %q", title), func() (bool, string) {
		got := evaluate[string](s, `document.querySelector('dialog[open] h2')?.innerText ?? ''`)
		return strings.HasPrefix(got, title), got
	})
}

// look checks the screen as it stands, on a desk by day and on a telephone by night:
// it is usable, as wide as its window, and asks nobody but its server. It leaves
// pictures among the test's artifacts.
func (s *screen) look(name string) {
	s.t.Helper()
	for _, v := range []struct {
		width  int64
		scheme string
	}{{390, "dark"}, {1440, "light"}} {
		s.shape(v.width, v.scheme)
		if wide := evaluate[int64](s, `document.documentElement.scrollWidth`); wide > v.width {
			s.t.Errorf("%s is %d px wide on a screen of %d", name, wide, v.width)
		}
		picture, err := chromedp.Run(s.ctx, chromedp.FullScreenshot(100))
		must(s.t, err)
		must(s.t, os.WriteFile(filepath.Join(s.t.ArtifactDir(), fmt.Sprintf("%s-%d-%s.png", name, v.width, v.scheme)), picture, 0o644))
		s.accessible(fmt.Sprintf("%s at %d px, %s", name, v.width, v.scheme))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.strange {
		s.t.Errorf("%s: %s", name, fault)
	}
	s.strange = nil
}

// accessible lets axe look. It is put into the page by the browser, past the policy
// that keeps scripts of others out.
func (s *screen) accessible(name string) {
	s.t.Helper()
	if evaluate[bool](s, `typeof axe === 'undefined'`) {
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](s.axe))
		must(s.t, err)
	}
	for _, fault := range evaluate[[]string](s, `axe.run({resultTypes: ['violations']}).then((r) => r.violations.map((v) => v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary).slice(0, 3).join(' | ')))`) {
		s.t.Errorf("%s: %s", name, fault)
	}
}
