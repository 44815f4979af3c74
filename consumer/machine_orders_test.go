package consumer_test

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"seckill/admission"
)

// What becomes of orders: cancelled, paid, expired.

func (m *machine) anyOrder(t *rapid.T) *modelOrder {
	return m.pick(t, func(*modelOrder) bool { return true })
}

// CancelByBuyer cancels an order, in flight or decided; another buyer cannot.
func (m *machine) CancelByBuyer(t *rapid.T) {
	o := m.anyOrder(t)
	if rapid.IntRange(0, 9).Draw(t, "foreign") == 0 {
		_, err := m.s.service.Cancel(t.Context(), o.sale.id, "somebody", o.id)
		if got := codeOf(err); got != admission.CodeNotFound && got != admission.CodeNotReady {
			t.Fatalf("a foreign order was cancelled: %v", err)
		}
		return
	}
	want := admission.Code("")
	switch {
	case o.undecided() && o.record == 0:
		want = admission.CodeNotReady // nobody knows yet what it is
	case o.undecided() || o.status == admission.Cancelled || o.status == admission.Held:
	case o.status == admission.Paid || !o.live():
		want = admission.CodeNotCancellable
	}
	row, err := m.s.service.Cancel(t.Context(), o.sale.id, o.user, o.id)
	m.want(t, "cancel", err, want)
	if want != "" {
		return
	}
	if row.Status != admission.Cancelled || row.ID != o.id {
		t.Fatalf("cancelled: %+v", row)
	}
	if o.status == admission.Cancelled {
		o.sale.tell(o)
		return
	}
	o.sale.die(o, admission.Cancelled, true, false)
}

// CancelByOperator cancels an order that is decided, paid ones included; it may die
// before the gate is told.
func (m *machine) CancelByOperator(t *rapid.T) {
	o := m.pick(t, func(o *modelOrder) bool { return !o.undecided() })
	refund := rapid.Bool().Draw(t, "refund")
	c := admission.Cancellation{ID: o.id, Refund: refund}
	want, told := admission.Code(""), rapid.Bool().Draw(t, "told")
	if !o.live() && o.status != admission.Held && o.status != admission.Cancelled {
		want = admission.CodeNotCancellable
	}
	var err error
	if told {
		_, err = m.s.desk().Cancel(t.Context(), c)
	} else {
		_, err = m.s.ledger.Cancel(t.Context(), c)
	}
	m.want(t, "cancel by an operator", err, want)
	switch {
	case want != "":
	case o.status == admission.Cancelled && told:
		o.sale.tell(o)
		if o.mark == o.sale.epoch { // that of an older gate is the release job's
			o.sale.clear(o)
		}
	case o.status != admission.Cancelled:
		o.refund = o.status == admission.Paid && refund
		o.sale.die(o, admission.Cancelled, told, told)
	}
}

// Expire lets the deadlines of some orders pass; the job may die before it tells.
func (m *machine) Expire(t *rapid.T) {
	one := m.pick(t, func(o *modelOrder) bool { return o.status == admission.PendingPayment })
	dead := []*modelOrder{one}
	if rapid.Bool().Draw(t, "all") {
		dead = nil
		for _, o := range one.sale.orders {
			if o.status == admission.PendingPayment {
				dead = append(dead, o)
			}
		}
	}
	var ids []string
	for _, o := range dead {
		ids = append(ids, o.id)
	}
	_, err := m.s.pool.Exec(t.Context(), `update orders set pay_before = now() where id = any($1::uuid[])`, ids)
	m.must(t, err)
	told := rapid.Bool().Draw(t, "told")
	if told {
		_, err = m.s.expiry().Round(t.Context())
	} else {
		err = m.s.ledger.ExpireUntold(t.Context())
	}
	m.must(t, err)
	for _, o := range dead {
		o.sale.die(o, admission.Expired, told, told)
	}
}

// Pay pays an order: right, too little, late, again, twice.
func (m *machine) Pay(t *rapid.T) {
	o := m.anyOrder(t)
	id := fmt.Sprint("p", m.s.runs, "-", rapid.IntRange(0, 2*len(m.payments)+2).Draw(t, "payment"))
	m.pay(t, id, o, o.amount()-int64(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "missing")))
}

// PayAgain repeats a payment.
func (m *machine) PayAgain(t *rapid.T) {
	if len(m.payments) == 0 {
		t.Skip()
	}
	p := rapid.SampledFrom(m.payments).Draw(t, "payment")
	m.pay(t, p.id, p.order, p.amount)
}

// PayLate pays an expired order.
func (m *machine) PayLate(t *rapid.T) {
	o := m.pick(t, func(o *modelOrder) bool { return o.status == admission.Expired && m.paymentOf("", o) == nil })
	m.pay(t, fmt.Sprint("late", m.s.runs, "-", len(m.payments)), o, o.amount())
}

// paymentOf is the payment of an id, else of an order.
func (m *machine) paymentOf(id string, o *modelOrder) *modelPayment {
	var of *modelPayment
	for _, p := range m.payments {
		if p.id == id {
			return p
		}
		if p.order == o {
			of = p
		}
	}
	return of
}

func (m *machine) pay(t *rapid.T, id string, o *modelOrder, amount int64) {
	want := m.takePayment(id, o, amount)
	p := m.paymentOf(id, o)
	if want == "" && p.state == admission.PaymentPlacing {
		m.payLate(t, p)
		return
	}
	row, err := m.s.service.Pay(t.Context(), admission.Payment{ID: id, Order: o.id, Amount: amount})
	m.want(t, "pay", err, want)
	if err == nil && row.Status != o.status {
		t.Fatalf("a payment of an order that is %s is told %+v", o.status, row)
	}
}

// takePayment is how the ledger takes a payment in.
func (m *machine) takePayment(id string, o *modelOrder, amount int64) admission.Code {
	known := m.paymentOf(id, o)
	switch {
	case o.undecided():
		return admission.CodeNotFound
	case known != nil && (known.id != id || known.order != o):
		return admission.CodeNotPayable
	case known != nil && known.amount != amount:
		return admission.CodeAmount
	case known != nil:
		return ""
	case o.status != admission.PendingPayment && o.status != admission.Confirmed && o.status != admission.Expired:
		return admission.CodeNotPayable
	case amount != o.amount():
		return admission.CodeAmount
	}
	p := &modelPayment{id: id, order: o, amount: amount, state: admission.PaymentPaid}
	if o.status == admission.Expired {
		p.state = admission.PaymentPlacing
	} else {
		o.status = admission.Paid
	}
	m.payments = append(m.payments, p)
	return ""
}

// payLate tries to buy another order for a late payment, until that is in the log, or
// the payment has an end.
func (m *machine) payLate(t *rapid.T, p *modelPayment) {
	a := p.order.sale
	if m.soldOut {
		time.Sleep(250 * time.Millisecond) // a node may remember sold out for 200
	}
	wasReady := a.ready()
	if wasReady && p.order.status != "" {
		a.tell(p.order)
	}
	o := a.find(p.replacement)
	if o == nil {
		o = &modelOrder{sale: a, id: p.replacement, user: p.order.user, sku: p.order.sku, units: p.order.units}
	}
	code, was := a.admit(o)
	if code == "" && was != nil && was != o {
		code = admission.CodeLimitReached
	}
	goes := o.undecided() && o.seq != 0 // at once, since what it buys is in the log already
	row, err := m.payUntilAppended(t, p, o, goes)
	switch {
	case code == admission.CodeNotReady || code == admission.CodePaused:
		if !goes || codeOf(err) != admission.CodeOverloaded { // who went away is told nothing
			m.want(t, "pay late", err, code)
		}
		return
	case code != "":
		p.state, p.order.refund = admission.PaymentRefund, true
		m.soldOut = m.soldOut || code == admission.CodeSoldOut
		if o.undecided() {
			m.refused(t, p, o)
		}
	case was == nil && !o.undecided():
		// It is dead, and a rebuilt gate does not know it: the settlement will say so.
		o.record, o.epoch = admission.Pending, a.epoch
		m.bought(p, o)
	case was == nil:
		a.reserve(o)
		o.id = m.replacementOf(t, p)
		p.replacement = o.id
		m.appended(t, o)
	default:
		m.bought(p, o)
	}
	if p.state == admission.PaymentPlacing {
		if got := codeOf(err); got != admission.CodeUnknown && got != admission.CodeOverloaded {
			t.Fatalf("pay late: %q (%v), and the payment has no end yet: %+v", got, err, row)
		}
		return
	}
	m.want(t, "pay late", err, "")
	if p.order.refund != (row.Refund == admission.RefundDue) || row.ReplacedBy != p.order.replaced || row.Status != p.order.status {
		t.Fatalf("a late payment that is %+v is told %+v", p, row)
	}
}

// bought ends a late payment by what became of its order.
func (m *machine) bought(p *modelPayment, o *modelOrder) {
	switch o.status {
	case "", admission.Held:
	case admission.PendingPayment, admission.Confirmed:
		o.status, p.state, p.order.replaced = admission.Paid, admission.PaymentPaid, o.id
	default:
		p.state, p.order.refund = admission.PaymentRefund, true
	}
}

// refused ends a late payment whose order was not to be had: a row keeps it from coming.
func (m *machine) refused(t *rapid.T, p *modelPayment, o *modelOrder) {
	o.id, o.status, o.epoch = m.replacementOf(t, p), admission.Rejected, o.sale.epoch
	p.replacement = o.id
	o.sale.orders = append(o.sale.orders, o)
}

func (m *machine) replacementOf(t *rapid.T, p *modelPayment) (id string) {
	m.must(t, m.s.pool.QueryRow(t.Context(), `select replacement::text from payments where id = $1`, p.id).Scan(&id))
	return id
}

// payUntilAppended pays, and goes away as soon as the order that it buys is in the log:
// nobody settles here meanwhile.
func (m *machine) payUntilAppended(t *rapid.T, p *modelPayment, o *modelOrder, goes bool) (admission.Row, error) {
	type answer struct {
		row admission.Row
		err error
	}
	before, err := m.s.log.LastSeq(t.Context(), o.sale.id)
	m.must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		row, err := m.s.service.Pay(ctx, admission.Payment{ID: p.id, Order: p.order.id, Amount: p.amount})
		done <- answer{row, err}
	}()
	decided := !o.undecided()
	var got answer
	m.until(t, "the late payment is tried", func() bool {
		last, err := m.s.log.LastSeq(t.Context(), o.sale.id)
		m.must(t, err)
		if !decided && last > before || goes {
			cancel()
		}
		select {
		case got = <-done:
			return true
		default:
			return false
		}
	})
	return got.row, got.err
}
