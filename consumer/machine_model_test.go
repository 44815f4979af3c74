package consumer_test

import (
	"slices"

	"seckill/admission"
)

// The model says what one run's sales must be like: it knows the rules of gate, log
// and ledger, and no server.

// modelOrder is one order, its row and its record at the gate.
type modelOrder struct {
	sale          *modelSale
	id, user, key string
	sku           *modelSKU
	units         int64
	epoch         int64 // of the reservation
	seq           uint64
	status        admission.Status // of the row; empty: none
	mark          int64            // release_epoch of the row
	refund        bool
	replaced      string                     // id of the order that replaces it
	record        admission.ReservationState // at the present gate
}

type modelSKU struct {
	id           string
	total, limit int64
	gateTotal    int64 // as it was brought to the gate
}

type modelDelta struct {
	sku   *modelSKU
	delta int64
}

// modelGate is the gate beside its records. A half rebuild has closed it.
type modelGate struct {
	epoch  int64 // 0: there is none
	open   bool
	paused bool
}

type modelSale struct {
	id     string
	window bool // orders have to be paid
	skus   []*modelSKU
	orders []*modelOrder
	epoch  int64 // the ledger's
	paused bool
	gate   modelGate
	deltas []modelDelta // that wait for a rebuild
	half   *halfRebuild
}

// modelPayment is a payment that was taken in.
type modelPayment struct {
	id          string
	order       *modelOrder
	amount      int64
	state       admission.PaymentState
	replacement string
}

// What a failed run shows of them.
func (o *modelOrder) GoString() string   { return o.id + " of " + o.user }
func (s *modelSKU) GoString() string     { return s.id }
func (a *modelSale) GoString() string    { return a.id }
func (p *modelPayment) GoString() string { return p.id }

func (a *modelSale) ready() bool { return a.gate.open && a.gate.epoch == a.epoch }

// sum adds up the units of the orders that count.
func (a *modelSale) sum(counts func(*modelOrder) bool) (n int64) {
	for _, o := range a.orders {
		if counts(o) {
			n += o.units
		}
	}
	return n
}

func (o *modelOrder) live() bool { return o.status.Live() }

func (o *modelOrder) charged() bool {
	return o.record == admission.Pending || o.record == admission.Charged
}

// amount is what has to be paid; every unit costs 100.
func (o *modelOrder) amount() int64 { return 100 * o.units }

// undecided says whether the order waits for its row.
func (o *modelOrder) undecided() bool { return o.status == "" }

// shown is the status that its buyer sees.
func (o *modelOrder) shown() admission.Status {
	if o.undecided() {
		return admission.Accepted
	}
	return o.status
}

func (a *modelSale) free(s *modelSKU) int64 {
	return s.total - a.sum(func(o *modelOrder) bool { return o.sku == s && (o.live() || o.status == admission.Held) })
}

func (a *modelSale) gateStock(s *modelSKU) int64 {
	return s.gateTotal - a.sum(func(o *modelOrder) bool { return o.sku == s && o.charged() })
}

func (a *modelSale) find(id string) *modelOrder {
	for _, o := range a.orders {
		if o.id == id {
			return o
		}
	}
	return nil
}

// admit says how the gate answers an order: with a code, or with the order that it is
// or was; neither: it is a new one.
func (a *modelSale) admit(o *modelOrder) (admission.Code, *modelOrder) {
	if !a.ready() {
		return admission.CodeNotReady, nil
	}
	var newest *modelOrder // charged order of this buyer and SKU
	charged := o.units
	for _, before := range a.orders {
		if before.user != o.user || before.record == 0 {
			continue
		}
		same := before.sku == o.sku && before.units == o.units
		switch {
		case before.id == o.id:
			return "", before
		case o.key != "" && before.key == o.key && same:
			return "", before
		case o.key != "" && before.key == o.key:
			return admission.CodeMismatch, before
		}
		if before.sku == o.sku && before.charged() {
			newest, charged = before, charged+before.units
		}
	}
	switch {
	case charged > o.sku.limit && o.sku.limit == 1 && o.units == 1 && o.key == "":
		return "", newest
	case a.gate.paused:
		return admission.CodePaused, nil
	case charged > o.sku.limit:
		return admission.CodeLimitReached, nil
	case a.gateStock(o.sku) < o.units:
		return admission.CodeSoldOut, nil
	}
	return "", nil
}

// reserve makes the order one of the gate's.
func (a *modelSale) reserve(o *modelOrder) {
	o.record, o.epoch = admission.Pending, a.epoch
	a.orders = append(a.orders, o)
}

// decide settles an order that the log has delivered.
func (a *modelSale) decide(o *modelOrder) {
	switch {
	case !o.undecided():
	case o.user == poisoned:
		o.status = admission.Held
	case a.window:
		o.status = admission.PendingPayment
	default:
		o.status = admission.Confirmed
	}
}

// tell brings the order's status to the gate.
func (a *modelSale) tell(o *modelOrder) {
	switch {
	case !a.ready() || o.status == admission.Held:
	case o.live() && o.record == admission.Pending:
		o.record = admission.Charged
	case !o.live() && o.charged():
		o.record = admission.Released
	}
}

// die ends an order that is live or held, marks it, and perhaps tells the gate.
func (a *modelSale) die(o *modelOrder, as admission.Status, told, cleared bool) {
	if !o.undecided() {
		o.mark = a.epoch
	}
	o.status = as
	if told {
		a.tell(o)
	}
	if cleared {
		a.clear(o)
	}
}

// clear removes the mark if the gate needs no reminder any more.
func (a *modelSale) clear(o *modelOrder) {
	switch {
	case o.mark == 0 || a.gate.epoch < o.mark || a.gate.epoch == o.mark && !a.gate.open:
		return
	case a.gate.epoch == o.mark:
		a.tell(o)
	}
	o.mark = 0
}

// halfRebuild is a rebuild that was begun by hand.
type halfRebuild struct {
	epoch    int64
	server   string
	filled   bool
	snapshot *admission.Snapshot
	paused   bool
	totals   []int64
	records  map[*modelOrder]admission.ReservationState
}

// snapshot begins an epoch: what waits is taken away, and the gate is to be filled
// with what comes back.
func (a *modelSale) snapshot(n int64) *halfRebuild {
	a.epoch = n
	for _, d := range a.deltas {
		if a.free(d.sku) >= -d.delta {
			d.sku.total += d.delta
		}
	}
	a.deltas = nil
	h := &halfRebuild{epoch: n, paused: a.paused, records: map[*modelOrder]admission.ReservationState{}}
	for _, s := range a.skus {
		h.totals = append(h.totals, s.total)
	}
	for _, o := range a.orders {
		switch {
		case o.live() || o.status == admission.Held:
			h.records[o] = admission.Charged
		case o.key != "" && !o.undecided():
			h.records[o] = admission.Released
		}
	}
	return h
}

// fill throws away what the gate had.
func (a *modelSale) fill(h *halfRebuild) {
	for _, o := range a.orders {
		o.record = h.records[o]
	}
	for i, s := range a.skus {
		s.gateTotal = h.totals[i]
	}
}

func (a *modelSale) open(h *halfRebuild) {
	a.gate = modelGate{epoch: h.epoch, open: true, paused: h.paused}
}

// wipe loses the gate. What was reserved and not appended was promised to nobody.
func (a *modelSale) wipe() {
	a.gate = modelGate{}
	a.orders = slices.DeleteFunc(a.orders, func(o *modelOrder) bool { return o.undecided() && o.seq == 0 })
	for _, o := range a.orders {
		o.record = 0
	}
}

// bring brings what operators have changed to the gate.
func (a *modelSale) bring() {
	if !a.ready() {
		return
	}
	a.gate.paused = a.paused
	for _, s := range a.skus {
		s.gateTotal = s.total
	}
}
