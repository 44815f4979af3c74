package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// buy lets each of the users buy one unit of s1 in spring.
func (p *process) buy(users ...string) {
	p.t.Helper()
	for _, user := range users {
		status, body, err := call(http.MethodPost, p.http+"/v1/activities/spring/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": user})
		if err != nil || status != http.StatusAccepted {
			p.t.Fatalf("%s buys: %d %s (%v)", user, status, body, err)
		}
	}
}

func buyers(what string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(what, "-", i))
	}
	return names
}

// A sale is opened, rescued and closed from the console alone: a worker dies with the
// partition in its hands, an order cannot be settled, and more units are found. Each
// screen is looked at on the way, and in the end the books are right.
func TestConsole(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	// A dead worker's leases outlive the test's patience, unless the operator releases them.
	i.env = append(i.env, "SECKILL_LOCK_TTL=90s", "SECKILL_PARTITIONS=1", "SECKILL_ADMIN_TOKENS=ann:ann-token", "SECKILL_ADMIN_READ_TOKENS=eye:eye-token")
	api := i.serve("SECKILL_ROLES=api")
	workers := []*process{i.serve("SECKILL_ROLES=worker"), i.serve("SECKILL_ROLES=worker")}
	i.operate(api, http.MethodPut, "/admin/v1/activities/spring", `{"title":"Spring sale","skus":[{"sku":"s1","total":20,"price":1990},{"sku":"s2","total":10,"price":50}]}`)
	s := api.openConsole()
	s.login()
	s.opened()
	api.buy(buyers("buyer", 8)...)
	s.equation(30, 8, 0, 22)
	s.says("of this process only: ", fmt.Sprintf("-%d-", api.cmd.Process.Pid))
	s.look("live")

	i.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a rule of the shop'; end $$`)
	i.exec(`create trigger poison before insert on orders for each row when (new.status <> 'held' and new.user_id like 'poison%') execute function refuse()`)
	api.buy("poison-1")
	s.equation(30, 8, 1, 21)
	s.says("1 dead letter")

	dead := i.killSettler(workers)
	api.buy(buyers("late", 3)...)
	s.released(dead)
	s.press("Live sale")
	s.equation(30, 11, 1, 18)

	i.exec(`drop trigger poison on orders`)
	s.replayed()
	s.addedStock()
	s.equation(40, 12, 0, 28)
	s.orders()
	s.audited()
	s.closed()
	s.readOnly()

	code, out, errs := i.run("audit", "--wait", "60s", "--output", "json")
	if code != exitDone {
		t.Errorf("seckill audit ended with %d: %s%s", code, out, errs)
	}
	if n := i.queryInt(`select count(*) from orders where status = 'confirmed'`); n != 12 {
		t.Errorf("%d orders are confirmed, want 12", n)
	}
	log := i.queryText(`select string_agg(action || '|' || subject || '|' || reason, ';' order by id) from activity_log where actor = 'console (ann)'`)
	for _, reason := range []string{"it is time", "its worker is dead", "the rule is gone", "ten more in the storeroom", "nobody comes any more"} {
		if !strings.Contains(log, reason) {
			t.Errorf("the activity log does not have %q: %s", reason, log)
		}
	}
}

// killSettler kills the worker that settles, and returns its name.
func (i *installation) killSettler(workers []*process) string {
	i.t.Helper()
	holder := i.queryText(`select holder from partitions where partition = 0`)
	for _, w := range workers {
		if strings.Contains(holder, fmt.Sprintf("-%d-", w.cmd.Process.Pid)) {
			w.signal(syscall.SIGKILL)
			<-w.ended
			return holder
		}
	}
	i.t.Fatalf("no process of this test is %s", holder)
	return ""
}

func (s *screen) login() {
	s.t.Helper()
	s.says("Admin token")
	s.fill("token", "not-a-token")
	s.do(chromedp.KeyEvent(kb.Enter))
	s.says("Send an admin token")
	s.look("login")
	s.fill("token", "ann-token")
	s.do(chromedp.KeyEvent(kb.Enter))
	s.says("Sign out", "ann", "s old")
}

func (s *screen) opened() {
	s.t.Helper()
	s.says("Spring sale", "draft", "not opened")
	s.press("Open …")
	s.answer("Open spring: 30 units go on sale now", "it is time", "Open the sale")
	s.says("spring is open.", "live", "Pause …")
	s.equation(30, 0, 0, 30)
}

// released ends what a dead worker holds: then the other one settles.
func (s *screen) released(dead string) {
	s.t.Helper()
	s.do(chromedp.KeyEvent("4"))
	s.says("Pipeline and locks", "partition/0", "member/"+dead)
	eventually(s.t, "three orders wait at partition 0", func() (bool, string) {
		row := evaluate[string](s, `document.querySelector('[data-partition="0"]').innerText`)
		return strings.Contains(row, dead) && strings.Contains(row, "\t3\t"), row
	})
	s.look("pipeline")
	for _, name := range []string{"member/" + dead, "partition/0"} {
		s.press("Release … " + name)
		s.answer("Release "+name, "its worker is dead", "Release it")
		s.says(name + " is released.")
	}
	eventually(s.t, "the other worker has the partition", func() (bool, string) {
		row := evaluate[string](s, `document.querySelector('[data-partition="0"]').innerText`)
		return !strings.Contains(row, dead) && !strings.Contains(row, "nobody"), row
	})
}

// replayed decides the order that could not be settled.
func (s *screen) replayed() {
	s.t.Helper()
	s.do(chromedp.KeyEvent("3"))
	s.says("By reason", "a rule of the shop", "poison-1", "held")
	s.fill("replay-partition", "0")
	s.fill("replay-rate", "50")
	s.press("Plan")
	s.says("orders matched")
	s.press("Run: 1 order")
	s.says("at most 50 orders a second")
	s.do(chromedp.KeyEvent(kb.Escape))
	s.press("unsettleable")
	s.says("Letters: unsettleable")
	s.look("dead-letters")
	s.press("Replay all of this reason")
	s.asked("Replay all 1 dead letter of this reason: 1 unit")
	s.do(chromedp.KeyEvent(kb.Escape))
	evaluate[bool](s, `(() => { document.querySelector('[aria-label^="Select all"]').click(); return true })()`)
	s.press("Replay 1 …")
	s.answer("Replay 1 dead letter: 1 unit", "the rule is gone", "Replay")
	s.says("Decided: 1 letter", "confirmed")
}

func (s *screen) addedStock() {
	s.t.Helper()
	s.do(chromedp.KeyEvent("1"))
	s.press("Stock … of s1")
	s.asked("Change the stock of s1 in spring")
	s.fill("number", "+10")
	s.says("20 → 30", "10 units more can be bought")
	s.answer("Change the stock", "ten more in the storeroom", "Change the stock")
}

// orders finds one by its buyer, and shows its whole way.
func (s *screen) orders() {
	s.t.Helper()
	s.do(chromedp.KeyEvent("2"))
	s.says("12 orders", "buyer-0", "late-2")
	s.do(chromedp.KeyEvent("/"))
	if at := evaluate[string](s, `document.activeElement.name`); at != "q" {
		s.t.Errorf("after / one types into %q", at)
	}
	s.fill("q", "poison-1")
	s.do(chromedp.KeyEvent(kb.Enter))
	s.says("1 order", "buyer poison-1")
	if address := evaluate[string](s, `location.hash`); !strings.Contains(address, "user=poison-1") {
		s.t.Errorf("the address does not say what is seen: %s", address)
	}
	s.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	s.says("Reserved at the gate", "On disk in the order log", "Decided in the ledger", "the rule is gone")
	s.look("orders")
	s.do(chromedp.Reload())
	s.says("1 order", "Decided in the ledger")
}

func (s *screen) audited() {
	s.t.Helper()
	s.do(chromedp.KeyEvent("5"))
	s.press("Run now")
	s.says("Every law holds", "All three were read at rest", "console (ann)", "ten more in the storeroom")
	s.look("audit")
	s.do(chromedp.KeyEvent("?"))
	s.asked("Keys")
	s.accessible("help")
	s.do(chromedp.KeyEvent(kb.Escape))
}

// closed asks first, and does nothing when it is not answered.
func (s *screen) closed() {
	s.t.Helper()
	s.do(chromedp.KeyEvent("1"))
	s.press("Close …")
	s.asked("Close spring: 28 units will no longer be sold")
	s.accessible("a question")
	s.do(chromedp.KeyEvent(kb.Escape))
	s.says("Close …", "live")
	s.press("Close …")
	s.answer("Close spring", "nobody comes any more", "Close for good")
	s.says("spring is closed.", "closed")
}

// readOnly shows everything to who may only read, offers no change, and audits.
func (s *screen) readOnly() {
	s.t.Helper()
	s.press("Sign out")
	s.fill("token", "eye-token")
	s.do(chromedp.KeyEvent(kb.Enter))
	s.says("Read only", "Spring sale")
	for n, words := range []string{"By SKU", "12 orders", "No order waits for a decision", "Partitions", "Activity log"} {
		s.do(chromedp.KeyEvent(fmt.Sprint(n + 1)))
		s.says(words)
		if found := evaluate[string](s, `[...document.querySelectorAll('main button')].map((b) => b.innerText).filter((b) => /…|Plan|Run:|Stop/.test(b)).join()`); found != "" {
			s.t.Errorf("who may only read is offered %s on screen %d", found, n+1)
		}
	}
	s.press("Run now")
	s.says("Every law holds", "console (eye)")
}
