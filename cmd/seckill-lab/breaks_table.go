package main

// safeguard is one line of defence of the protocol, how it is switched off, and the
// test that must then turn red.
type safeguard struct {
	rule   string // number in ARCHITECTURE.md, or the promise
	what   string
	file   string
	before string // stands exactly once in the file
	after  string
	test   string // of package consumer
}

// safeguards is what seckill-lab breaks switches off, one after the other.
var safeguards = []safeguard{
	{
		"1", "a settlement locks the SKU rows first", "consumer/sql/settle_lock_skus.sql",
		"   for update of s\n", "", "TestRule01SnapshotWaitsForSettlement",
	},
	{
		"2", "scripts compare the epoch", "admission/lua/gate.lua",
		"gate[1] ~= epoch or gate[2]", "gate[2]", "TestRule02ScriptsCarryTheEpoch",
	},
	{
		"2", "scripts act on an open gate only", "admission/lua/gate.lua",
		"gate[1] ~= epoch or gate[2] ~= 'open'", "gate[1] ~= epoch", "TestRule02ScriptsCarryTheEpoch",
	},
	{
		"2", "scripts compare the server", "admission/lua/gate.lua",
		"gate[3] ~= server()", "false", "TestRule25OtherServerAdmitsNobody",
	},
	{
		"3", "epochs are minted from the clock too", "consumer/ledger_epoch.go",
		"greatest(last_epoch + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)", "last_epoch + 1", "TestRule03EpochsOnlyRise",
	},
	{
		"4", "a rebuild keeps the epoch of a pending order", "admission/rebuild.go",
		"appendAll(ctx, r.Log, activity, p.Epoch, missing)", "appendAll(ctx, r.Log, activity, p.Epoch+1, missing)", "TestRule04And22PendingIsDecidedBeforeTheSnapshot",
	},
	{
		"5", "reserve knows its own order again", "admission/lua/reserve.lua",
		"if known then return", "if known and false then return", "TestRule05ReserveIsIdempotent",
	},
	{
		"5", "a key leads to its order", "admission/lua/reserve.lua",
		"if earlier then return", "if earlier and false then return", "TestCase30IdempotencyKey",
	},
	{
		"5", "the limit is told before the stock", "admission/lua/reserve.lua",
		"if charged + n > limit then", "if charged + n > limit and stocks[sku] >= n then", "TestRule05ReserveIsIdempotent",
	},
	{
		"5", "stock is compared before it is taken", "admission/lua/reserve.lua",
		"if stocks[sku] < n then return 'sold-out' end", "", "TestCase01OneBuyerAThousandTimes",
	},
	{
		"6", "another epoch is read again", "admission/lane_batch.go",
		"if p.activity.Epoch != before {", "if false && p.activity.Epoch != before {", "TestRule06OlderEpochIsReadAgain",
	},
	{
		"7", "a missing ack is resent", "admission/stream.go",
		"		case <-time.After(20 * time.Millisecond):\n", "		case <-time.After(20 * time.Hour):\n", "TestRule07ResendsTheSameMessage",
	},
	{
		"7", "under the same message id", "admission/stream.go",
		"jetstream.WithMsgID(id)", "jetstream.WithMsgID(NewID())", "TestRule07ResendsTheSameMessage",
	},
	{
		"8", "a repeat appends a pending order again", "admission/lane_batch.go",
		"if r.State != Pending || l.service.acked.has(r.ID) {", "if v.Kind == VerdictKnown || l.service.acked.has(r.ID) {", "TestRule08RepeatAppendsAgain",
	},
	{
		"9", "no 202 after the publish deadline", "admission/lane.go",
		"context.WithTimeout(l.service.life, PublishDeadline)\n		admitted", "context.WithCancel(l.service.life)\n		admitted", "TestOutcomeUnknown",
	},
	{
		"10", "a row that exists is the decision", "consumer/book.go",
		"	was, known := b.decided[o.ID]\n", "	was, known := b.decided[o.ID]\n	known = false\n", "TestCase26SameMessageTwice",
	},
	{
		"10", "an older epoch without a row is stale", "consumer/book.go",
		"known && d.Epoch < activity.epoch {", "false && known && d.Epoch < activity.epoch {", "TestRule10And11Decide",
	},
	{
		"11", "the ledger counts the limit", "consumer/book.go",
		"if b.units[buyer]+o.Quantity > sku.limit {", "if false && b.units[buyer]+o.Quantity > sku.limit {", "TestRule10And11Decide",
	},
	{
		"11", "the ledger counts the stock", "consumer/book.go",
		"	if sku.stock < o.Quantity {\n		return admission.Rejected, admission.ReasonSoldOut\n	}\n", "", "TestRule10And11Decide",
	},
	{
		"12", "no ack before the commit", "consumer/settler.go",
		"	decisions, err := s.decide(taking,", "	for _, m := range messages {\n		_ = m.Ack()\n	}\n	decisions, err := s.decide(taking,", "TestRule12NoAckBeforeCommit",
	},
	{
		"13", "a released order is not released again", "admission/lua/settle.lua",
		"(state == 'p' or state == 'c')", "record", "TestRule13OutcomesActOnce",
	},
	{
		"13", "a live order does not revive a released one", "admission/lua/settle.lua",
		"ARGV[i + 1] == 'live' and state == 'p'", "ARGV[i + 1] == 'live' and record", "TestRule13OutcomesActOnce",
	},
	{
		"14", "a rejection in the present epoch asks for a rebuild", "consumer/book.go",
		"if len(b.liars) > 0 {", "if false && len(b.liars) > 0 {", "TestRule14LyingGateIsRebuilt",
	},
	{
		"15", "a change locks the SKU rows before it reads the epoch", "consumer/sql/move_lock_skus.sql",
		"   for update of s\n", "", "TestRule15CancelWaitsForTheSnapshot",
	},
	{
		"15", "a cancelled order gives its units back to the stock", "consumer/move.go",
		"if m.row.Status.Live() && !m.to.Live() {", "if false && m.row.Status.Live() && !m.to.Live() {", "TestRule15CancelGivesBackOnce",
	},
	{
		"15", "a cancelled order is marked for the gate", "consumer/cancel.go",
		"to: admission.Cancelled, release: done.Epoch}", "to: admission.Cancelled}", "TestRule15MarkOutlivesALostWord",
	},
	{
		"15", "the gate is told before the answer", "admission/cancel.go",
		"	s.tellDead(ctx, done)\n", "", "TestRule15CancelGivesBackOnce",
	},
	{
		"15", "a buyer cancels orders of his own only", "consumer/cancel.go",
		`case c.User != "" && (row.User`, `case false && (row.User`, "TestRule15OwnOrdersOnly",
	},
	{
		"15", "an order in flight leaves a tombstone", "admission/cancel.go",
		"		if row.Status == Accepted {\n", "		if false && row.Status == Accepted {\n", "TestPoint35TombstoneBeforeTheMessage",
	},
	{
		"16", "a gate that is not there keeps its marks", "consumer/release.go",
		"return now > life.epoch, nil", "return now > life.epoch || true, nil", "TestReleaseGivesUnitsBackOnce",
	},
	{
		"16", "a newer gate needs no marks", "consumer/release.go",
		"return now > life.epoch, nil", "return now > life.epoch && false, nil", "TestReleaseGivesUnitsBackOnce",
	},
	{
		"17", "every attempt of a late payment asks for one order id", "admission/payment.go",
		"s.placeAs(ctx, a, late.Replacement)", "s.placeAs(ctx, a, NewID())", "TestRule17LatePaymentBuysAnew",
	},
	{
		"17", "the gate forgets the expired order before it is asked for another", "admission/payment.go",
		"if err := s.forget(ctx, late); err != nil {", "if err := error(nil); err != nil {", "TestRule17LatePaymentBeforeTheGateWasTold",
	},
	{
		"17", "another order of the buyer is not what a late payment bought", "admission/payment.go",
		"err == nil && placed.ID != late.Replacement", "false && placed.ID != late.Replacement", "TestRule17LatePaymentOfNothing",
	},
	{
		"17", "a refund leaves no order to come", "consumer/payment.go",
		"		err = o.refuse(ctx, tx, done.Row, locks.epoch(o.activity), refused)\n", "", "TestRule17RefundIsFinal",
	},
	{
		"17", "a late payment is finished without its node", "consumer/late_payments.go",
		"_, err := p.Service.Pay(attempt, one); err", "_, err := p.Ledger.Pay(attempt, one); err", "TestPoint37LatePaymentOutlivesItsNode",
	},
	{
		"18", "the sweep waits until the log is settled", "admission/sweep.go",
		"if settled < m.lastSeq {", "if false && settled < m.lastSeq {", "TestRule18SweepLeavesABacklogAlone",
	},
	{
		"18", "the sweep appends what the ledger does not know", "admission/sweep.go",
		"appendAll(ctx, s.Log, id, p.Epoch, missing)", "appendAll(ctx, s.Log, id, p.Epoch, nil)", "TestRule18SweepLeavesABacklogAlone",
	},
	{
		"19", "a replay keeps the epoch of its orders", "consumer/replay_republish.go",
		"admission.NewBatch(item.activity, item.epoch)", "admission.NewBatch(item.activity, item.epoch+1<<40)", "TestRule19ReplayKeepsTheEpoch",
	},
	{
		"19", "a replay's copies have new message ids", "consumer/replay_republish.go",
		"b.Replay = &admission.Replayed{", "b.ID = p.run.Selection.Mode\n\t\t\tb.Replay = &admission.Replayed{", "TestCase23ReplayTwice",
	},
	{
		"20", "units are taken away by a rebuild only", "consumer/ledger_stock.go",
		"if d.Delta < 0 && a.State != admission.Draft {", "if false && a.State != admission.Draft {", "TestRule20TakingWaitsForWhatWasAdmitted",
	},
	{
		"20", "units of held orders are not free", "consumer/sql/delta_apply.sql",
		"o.status = 'held'", "false", "TestStockDelta",
	},
	{
		"20", "the gate takes a newer total only", "admission/lua/set_total.lua",
		"tonumber(version) > tonumber(had)", "true", "TestRule20TotalsAreLevelTriggered",
	},
	{
		"20", "the sweep brings a total that did not arrive", "admission/sweep.go",
		"s.Gate.Bring(ctx, a)", "s.Gate.SetSale(ctx, a)", "TestRule20TotalsAreLevelTriggered",
	},
	{
		"21", "an older rebuild cannot close", "admission/lua/close.lua",
		"tonumber(gate[1]) > tonumber(ARGV[1])", "false", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"22", "a rebuild waits out the publish deadline", "admission/rebuild.go",
		"	case <-time.After(PublishDeadline):\n", "	case <-time.After(0):\n", "TestRule09And22AppendUnderWayCounts",
	},
	{
		"22", "a rebuild appends what is pending", "admission/rebuild.go",
		"appendAll(ctx, r.Log, activity, p.Epoch, missing)", "appendAll(ctx, r.Log, activity, p.Epoch, nil)", "TestRule04And22PendingIsDecidedBeforeTheSnapshot",
	},
	{
		"22", "a rebuild waits for the backlog", "admission/rebuild.go",
		"		if settled >= seq {\n", "		if true || settled >= seq {\n", "TestRule22WaitsForTheBacklog",
	},
	{
		"23", "only the newest takes the snapshot", "consumer/ledger_epoch.go",
		"if a.LastEpoch != n {", "if false && a.LastEpoch != n {", "TestRule23OnlyTheNewestTakesTheSnapshot",
	},
	{
		"24", "fill wants the gate closed under its number", "admission/lua/fill.lua",
		"if gate[1] ~= ARGV[1] or gate[2] ~= 'closed' then", "if false then", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"24", "open counts the records", "admission/lua/open.lua",
		" or redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2])", "", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"25", "a gate on another server is rebuilt", "admission/rebuild.go",
		"case !view.Trusted:", "case false:", "TestRule25WhenARebuildIsNeeded",
	},
	{
		"25", "a gate is not filled from broken books", "consumer/reconcile_plan.go",
		"	case broken:\n", "	case broken && false:\n", "TestReconcile",
	},
	{
		"25", "a late suspicion does not touch the next gate", "consumer/ledger_activity.go",
		"and epoch = $2 and last_epoch = $2 and suspect", "and $2::bigint > 0 and suspect", "TestReconcileSweepsAndRebuilds",
	},
	{
		"26", "a ledger that fell back forgets its gates", "consumer/settler_bind.go",
		"if (same || from.Log.IsZero()) && floor > from.Seq {", "if false && floor > from.Seq {", "TestLedgerFellBack",
	},
	{
		"27", "taking compares the term that was read before", "consumer/ledger_partition.go",
		"holder = $3 where partition = $1 and term = $2", "holder = $3 where partition = $1 and $2 >= 0", "TestRule27StaleHolderIsFenced",
	},
	{
		"27", "settling compares the term", "consumer/sql/settle_term.sql",
		"where partition = $1 and term = $2 for update", "where partition = $1 and $2 >= 0 for update", "TestRule27StaleHolderIsFenced",
	},
	{
		"28", "a memory of sold out ends with the gate's version", "admission/sold_out_read.go",
		"l.version == o.version && ", "", "TestRule28BuyersSinceTheMemory",
	},
	{
		"28", "the version rises when a unit comes back", "admission/lua/settle.lua",
		"if back then redis.call('HINCRBY', KEYS[1], 'version', 1) end", "", "TestRule28BuyersSinceTheMemory",
	},
	{
		"28", "who has an order asks the gate", "admission/sold_out.go",
		"return !has", "return !has || len(r.buyers) > 0", "TestRule28ExactForBuyers",
	},
	{
		"28", "whose order was released asks the gate", "admission/sold_out_read.go",
		"for _, r := range page.List {", "for _, r := range page.List {\n\t\t\tif r.State == Released {\n\t\t\t\tcontinue\n\t\t\t}", "TestRule28ReleasedBuyers",
	},
	{
		"28", "the limit is told before sold out, from memory too", "admission/sold_out.go",
		"a.Quantity > limit", "limit < 0", "TestRule28KeysAndLimits",
	},
	{
		"28", "keys ask the gate while anything is for sale", "admission/sold_out.go",
		"a.Key != \"\" && !r.look.all", "false", "TestRule28KeysAndLimits",
	},
	{
		"G3", "a poison order is isolated", "consumer/settler_isolate.go",
		"if err == nil || classify(err) != poison {", "if true {", "TestCase21PoisonOrder",
	},
	{
		"G3", "a log made anew is settled from its beginning", "consumer/settler_bind.go",
		"	if same && log.State.LastSeq >= from.Seq {\n", "	if true || same && log.State.LastSeq >= from.Seq {\n", "TestLogMadeAnew",
	},
}
