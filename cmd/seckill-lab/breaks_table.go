package main

// safeguard is one line of defence of the protocol, how it is switched off, and the
// test that must then turn red.
type safeguard struct {
	rule   string // number in ARCHITECTURE.md, G1 to G6 for a promise, or a word
	what   string
	file   string
	before string // stands exactly once in the file
	after  string
	folder string // of the test's package
	test   string
}

// safeguards is what seckill-lab breaks switches off, one after the other.
var safeguards = []safeguard{
	{
		"1", "a settlement locks the SKU rows first", "consumer/sql/settle_lock_skus.sql",
		"   for update of s\n", "", "consumer", "TestRule01SnapshotWaitsForSettlement",
	},
	{
		"2", "scripts compare the epoch", "admission/lua/gate.lua",
		"gate[1] ~= epoch or gate[2]", "gate[2]", "consumer", "TestRule02ScriptsCarryTheEpoch",
	},
	{
		"2", "scripts act on an open gate only", "admission/lua/gate.lua",
		"gate[1] ~= epoch or gate[2] ~= 'open'", "gate[1] ~= epoch", "consumer", "TestRule02ScriptsCarryTheEpoch",
	},
	{
		"2", "scripts compare the server", "admission/lua/gate.lua",
		"gate[3] ~= server()", "false", "consumer", "TestRule25OtherServerAdmitsNobody",
	},
	{
		"3", "epochs are minted from the clock too", "consumer/ledger_epoch.go",
		"greatest(last_epoch + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)", "last_epoch + 1", "consumer", "TestRule03EpochsOnlyRise",
	},
	{
		"4", "a rebuild keeps the epoch of a pending order", "admission/rebuild.go",
		"appendAll(ctx, r.Log, activity, p.Epoch, missing)", "appendAll(ctx, r.Log, activity, p.Epoch+1, missing)", "consumer", "TestRule04And22PendingIsDecidedBeforeTheSnapshot",
	},
	{
		"5", "reserve knows its own order again", "admission/lua/reserve.lua",
		"if records[id] then return", "if false and records[id] then return", "consumer", "TestRule05ReserveIsIdempotent",
	},
	{
		"5", "a key leads to its order", "admission/lua/reserve.lua",
		"if key ~= '' and earlier[field] then return", "if false and earlier[field] then return", "consumer", "TestCase30IdempotencyKey",
	},
	{
		"5", "the limit is told before the stock", "admission/lua/reserve.lua",
		"if charged + n > limit then", "if charged + n > limit and stocks[sku] >= n then", "consumer", "TestRule05ReserveIsIdempotent",
	},
	{
		"5", "stock is compared before it is taken", "admission/lua/reserve.lua",
		"if stocks[sku] < n then return 'sold-out' end", "", "consumer", "TestCase01OneBuyerAThousandTimes",
	},
	{
		"6", "another epoch is read again", "admission/lane_batch.go",
		"if p.activity.Epoch != before {", "if false && p.activity.Epoch != before {", "consumer", "TestRule06OlderEpochIsReadAgain",
	},
	{
		"7", "a missing ack is resent", "admission/stream.go",
		"		case <-time.After(20 * time.Millisecond):\n", "		case <-time.After(20 * time.Hour):\n", "consumer", "TestRule07ResendsTheSameMessage",
	},
	{
		"7", "under the same message id", "admission/stream.go",
		"jetstream.WithMsgID(id)", "jetstream.WithMsgID(NewID())", "consumer", "TestRule07ResendsTheSameMessage",
	},
	{
		"8", "a repeat appends a pending order again", "admission/lane_batch.go",
		"if r.State != Pending || l.service.acked.has(r.ID) {", "if v.Kind == VerdictKnown || l.service.acked.has(r.ID) {", "consumer", "TestRule08RepeatAppendsAgain",
	},
	{
		"9", "no 202 after the publish deadline", "admission/lane.go",
		"context.WithTimeout(l.service.life, PublishDeadline)", "context.WithCancel(l.service.life)", "consumer", "TestOutcomeUnknown",
	},
	{
		"10", "a row that exists is the decision", "consumer/book.go",
		"	was, known := b.decided[o.ID]\n", "	was, known := b.decided[o.ID]\n	known = false\n", "consumer", "TestCase26SameMessageTwice",
	},
	{
		"10", "an older epoch without a row is stale", "consumer/book.go",
		"known && d.Epoch < activity.epoch {", "false && known && d.Epoch < activity.epoch {", "consumer", "TestRule10And11Decide",
	},
	{
		"11", "the ledger counts the limit", "consumer/book.go",
		"if b.units[buyer]+o.Quantity > sku.limit {", "if false && b.units[buyer]+o.Quantity > sku.limit {", "consumer", "TestRule10And11Decide",
	},
	{
		"11", "the ledger counts the stock", "consumer/book.go",
		"	if sku.stock < o.Quantity {\n		return admission.Rejected, admission.ReasonSoldOut\n	}\n", "", "consumer", "TestRule10And11Decide",
	},
	{
		"12", "no ack before the commit", "consumer/settler.go",
		"	decisions, err := s.decide(taking,", "	for _, m := range messages {\n		_ = m.Ack()\n	}\n	decisions, err := s.decide(taking,", "consumer", "TestRule12NoAckBeforeCommit",
	},
	{
		"12", "who ends a hold gives back what it has", "consumer/settler.go",
		"giveBack([]message{next})", "_ = next", "consumer", "TestMessageInAStaleHandIsGivenBack",
	},
	{
		"12", "the position does not pass what went into another hand", "consumer/settler.go",
		"if meta.Sequence.Consumer != s.delivered+1 {", "if false {", "consumer", "TestMessageInAStaleHandIsNotPassed",
	},
	{
		"12", "the position waits for the letter of a held order", "consumer/ledger.go",
		"		upTo = 0 //", "		//", "consumer", "TestHeldOrderGetsItsLetterAfterACrash",
	},
	{
		"G3", "only a gate that was there when it was asked knows of no order", "admission/service.go",
		"s.catalog.since(ctx, activity, asked)", "s.catalog.get(ctx, activity, max(snapshotAge, time.Since(asked)))", "consumer", "TestLostGateForgetsNoOrder",
	},
	{
		"24", "an order without a time can be put into a gate", "admission/lua/fill.lua",
		"(%d+) %-?%d+ (%S+)", "(%d+) %d+ (%S+)", "consumer", "TestOrderWithoutATimeDoesNotStopARebuild",
	},
	{
		"13", "an order without a time can be released", "admission/lua/settle.lua",
		"(%d+) %-?%d+ (%S+)", "(%d+) %d+ (%S+)", "consumer", "TestOrderWithoutATimeDoesNotStopARebuild",
	},
	{
		"12", "an idle settler asks whether a delivery went astray", "consumer/settler.go",
		"info.Delivered.Consumer > s.delivered", "false && info != nil", "consumer", "TestDeliveryThatWentAstrayIsNotWaitedFor",
	},
	{
		"13", "a released order is not released again", "admission/lua/settle.lua",
		"(state == 'p' or state == 'c')", "record", "consumer", "TestRule13OutcomesActOnce",
	},
	{
		"13", "a live order does not revive a released one", "admission/lua/settle.lua",
		"ARGV[i + 1] == 'live' and state == 'p'", "ARGV[i + 1] == 'live' and record", "consumer", "TestRule13OutcomesActOnce",
	},
	{
		"14", "a rejection in the present epoch asks for a rebuild", "consumer/book.go",
		"if len(b.liars) > 0 {", "if false && len(b.liars) > 0 {", "consumer", "TestRule14LyingGateIsRebuilt",
	},
	{
		"15", "a change locks the SKU rows before it reads the epoch", "consumer/sql/move_lock_skus.sql",
		"   for update of s\n", "", "consumer", "TestRule15CancelWaitsForTheSnapshot",
	},
	{
		"15", "a cancelled order gives its units back to the stock", "consumer/move.go",
		"if m.row.Status.Live() && !m.to.Live() {", "if false && m.row.Status.Live() && !m.to.Live() {", "consumer", "TestRule15CancelGivesBackOnce",
	},
	{
		"15", "a cancelled order is marked for the gate", "consumer/cancel.go",
		"to: admission.Cancelled, release: done.Epoch}", "to: admission.Cancelled}", "consumer", "TestRule15MarkOutlivesALostWord",
	},
	{
		"15", "the gate is told before the answer", "admission/cancel.go",
		"	s.tellDead(ctx, done)\n", "", "consumer", "TestRule15CancelGivesBackOnce",
	},
	{
		"15", "a buyer cancels orders of his own only", "consumer/cancel.go",
		`case c.User != "" && (row.User`, `case false && (row.User`, "consumer", "TestRule15OwnOrdersOnly",
	},
	{
		"15", "an order in flight leaves a tombstone", "admission/cancel.go",
		"		if row.Status == Accepted {\n", "		if false && row.Status == Accepted {\n", "consumer", "TestPoint35TombstoneBeforeTheMessage",
	},
	{
		"16", "a gate that is not there keeps its marks", "consumer/release.go",
		"return now > life.epoch, nil", "return now > life.epoch || true, nil", "consumer", "TestReleaseGivesUnitsBackOnce",
	},
	{
		"16", "a newer gate needs no marks", "consumer/release.go",
		"return now > life.epoch, nil", "return now > life.epoch && false, nil", "consumer", "TestReleaseGivesUnitsBackOnce",
	},
	{
		"17", "every attempt of a late payment asks for one order id", "admission/payment.go",
		"s.placeAs(ctx, a, late.Replacement)", "s.placeAs(ctx, a, NewID())", "consumer", "TestRule17LatePaymentBuysAnew",
	},
	{
		"17", "the gate forgets the expired order before it is asked for another", "admission/payment.go",
		"if err := s.forget(ctx, late); err != nil {", "if err := error(nil); err != nil {", "consumer", "TestRule17LatePaymentBeforeTheGateWasTold",
	},
	{
		"17", "another order of the buyer is not what a late payment bought", "admission/payment.go",
		"err == nil && placed.ID != late.Replacement", "false && placed.ID != late.Replacement", "consumer", "TestRule17LatePaymentOfNothing",
	},
	{
		"17", "a refund leaves no order to come", "consumer/payment.go",
		"		err = o.refuse(ctx, tx, done.Row, locks.epoch(o.activity), refused)\n", "", "consumer", "TestRule17RefundIsFinal",
	},
	{
		"17", "a late payment is finished without its node", "consumer/late_payments.go",
		"_, err := p.Service.Pay(attempt, one); err", "_, err := p.Ledger.Pay(attempt, one); err", "consumer", "TestPoint37LatePaymentOutlivesItsNode",
	},
	{
		"18", "the sweep waits until the log is settled", "admission/sweep.go",
		"if settled < m.lastSeq {", "if false && settled < m.lastSeq {", "consumer", "TestRule18SweepLeavesABacklogAlone",
	},
	{
		"18", "the sweep appends what the ledger does not know", "admission/sweep.go",
		"appendAll(ctx, s.Log, id, p.Epoch, missing)", "appendAll(ctx, s.Log, id, p.Epoch, nil)", "consumer", "TestRule18SweepLeavesABacklogAlone",
	},
	{
		"G6", "a paced settlement keeps its deliveries alive", "consumer/pace.go",
		"		keepAlive(messages)\n", "", "consumer", "TestSettlementKeepsItsPace",
	},
	{
		"funnel", "busy processors turn buyers away", "admission/funnel.go",
		"if f.config.CPU.sheds() {", "if false && f.config.CPU.sheds() {", "cmd/seckill", "TestBusyProcessorsShedBuyers",
	},
	{
		"funnel", "never everybody is turned away", "admission/funnel_cpu.go",
		"max(part, 0), cpuMost", "max(part, 0), 1", "admission", "TestCPUSheds",
	},
	{
		"funnel", "who cannot sign payments is limited", "admission/http_payment.go",
		"limited != nil {", "false && limited != nil {", "cmd/seckill", "TestFunnel",
	},
	{
		"funnel", "who cancels is limited", "admission/cancel.go",
		"huma.Middlewares{h.paced, ", "huma.Middlewares{h.buyer, ", "cmd/seckill", "TestFunnel",
	},
	{
		"19", "a replay keeps the epoch of its orders", "consumer/replay_republish.go",
		"admission.NewBatch(item.activity, item.epoch)", "admission.NewBatch(item.activity, item.epoch+1<<40)", "consumer", "TestRule19ReplayKeepsTheEpoch",
	},
	{
		"19", "a replay's copies have new message ids", "consumer/replay_republish.go",
		"b.Replay = &admission.Replayed{", "b.ID = p.run.Selection.Mode\n\t\t\tb.Replay = &admission.Replayed{", "consumer", "TestCase23ReplayTwice",
	},
	{
		"20", "units are taken away by a rebuild only", "consumer/ledger_stock.go",
		"if d.Delta < 0 && a.State != admission.Draft {", "if false && a.State != admission.Draft {", "consumer", "TestRule20TakingWaitsForWhatWasAdmitted",
	},
	{
		"20", "units of held orders are not free", "consumer/sql/delta_apply.sql",
		"o.status = 'held'", "false", "consumer", "TestStockDelta",
	},
	{
		"20", "the gate takes a newer total only", "admission/lua/set_total.lua",
		"tonumber(version) > tonumber(had)", "true", "consumer", "TestRule20TotalsAreLevelTriggered",
	},
	{
		"20", "the sweep brings a total that did not arrive", "admission/sweep.go",
		"s.Gate.Bring(ctx, a)", "s.Gate.SetSale(ctx, a)", "consumer", "TestRule20TotalsAreLevelTriggered",
	},
	{
		"21", "an older rebuild cannot close", "admission/lua/close.lua",
		"tonumber(gate[1]) > tonumber(ARGV[1])", "false", "consumer", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"22", "a rebuild waits out the publish deadline", "admission/rebuild.go",
		"	case <-time.After(PublishDeadline):\n", "	case <-time.After(0):\n", "consumer", "TestRule09And22AppendUnderWayCounts",
	},
	{
		"22", "a rebuild appends what is pending", "admission/rebuild.go",
		"appendAll(ctx, r.Log, activity, p.Epoch, missing)", "appendAll(ctx, r.Log, activity, p.Epoch, nil)", "consumer", "TestRule04And22PendingIsDecidedBeforeTheSnapshot",
	},
	{
		"22", "a rebuild waits for the backlog", "admission/rebuild.go",
		"		if settled >= seq {\n", "		if true || settled >= seq {\n", "consumer", "TestRule22WaitsForTheBacklog",
	},
	{
		"23", "only the newest takes the snapshot", "consumer/ledger_epoch.go",
		"if a.LastEpoch != n {", "if false && a.LastEpoch != n {", "consumer", "TestRule23OnlyTheNewestTakesTheSnapshot",
	},
	{
		"24", "fill wants the gate closed under its number", "admission/lua/fill.lua",
		"if gate[1] ~= ARGV[1] or gate[2] ~= 'closed' then", "if false then", "consumer", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"24", "open counts the records", "admission/lua/open.lua",
		" or redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2])", "", "consumer", "TestRule21And24StepsOfARebuildCarryItsNumber",
	},
	{
		"25", "a gate on another server is rebuilt", "admission/rebuild.go",
		"case !view.Trusted:", "case false:", "consumer", "TestRule25WhenARebuildIsNeeded",
	},
	{
		"25", "a gate is not filled from broken books", "consumer/reconcile_plan.go",
		"	case broken:\n", "	case broken && false:\n", "consumer", "TestReconcile",
	},
	{
		"25", "a late suspicion does not touch the next gate", "consumer/ledger_activity.go",
		"and epoch = $2 and last_epoch = $2 and suspect", "and $2::bigint > 0 and suspect", "consumer", "TestReconcileSweepsAndRebuilds",
	},
	{
		"26", "a new settler notices that the ledger fell back", "consumer/settler_bind.go",
		"if (same || from.Log.IsZero()) && floor > from.Seq {", "if false && floor > from.Seq {", "consumer", "TestRule26LedgerFellBack",
	},
	{
		"26", "a settler at work notices that the ledger fell back", "consumer/book.go",
		"if uint64(settled) < term.Reached {", "if false && uint64(settled) < term.Reached {", "consumer", "TestRule26LedgerFellBackUnderASettler",
	},
	{
		"26", "a ledger that fell back forgets its gates", "consumer/settler_bind.go",
		"s.Ledger.Forget(ctx, here)", "s.Ledger.Forget(ctx, here[:0])", "consumer", "TestRule26LedgerFellBack",
	},
	{
		"26", "the log is settled again from the ledger's position", "consumer/settler_bind.go",
		"s.Log.StreamName(), name, from.Seq+1); err", "s.Log.StreamName(), name, max(from.Seq, s.consumer.CachedInfo().AckFloor.Stream)+1); err", "consumer", "TestRule26LedgerFellBack",
	},
	{
		"27", "taking compares the term that was read before", "consumer/ledger_partition.go",
		"holder = $3 where partition = $1 and term = $2", "holder = $3 where partition = $1 and $2 >= 0", "consumer", "TestRule27StaleHolderIsFenced",
	},
	{
		"27", "settling compares the term", "consumer/sql/settle_term.sql",
		"where partition = $1 and term = $2 for update", "where partition = $1 and $2 >= 0 for update", "consumer", "TestRule27StaleHolderIsFenced",
	},
	{
		"28", "a look that fails ends the memory", "admission/sold_out_read.go",
		"	if err != nil || !look.same(before.look) ||", "	if err == nil && !look.same(before.look) ||", "consumer", "TestRule28RedisAway",
	},
	{
		"28", "a memory of sold out ends with the gate's version", "admission/sold_out_read.go",
		"l.version == o.version && ", "", "consumer", "TestRule28BuyersSinceTheMemory",
	},
	{
		"28", "the version rises when a unit comes back", "admission/lua/settle.lua",
		"if back then redis.call('HINCRBY', KEYS[1], 'version', 1) end", "", "consumer", "TestRule28BuyersSinceTheMemory",
	},
	{
		"28", "who has an order asks the gate", "admission/sold_out.go",
		"a.User)); has {", "a.User)); has && len(r.buyers) == 0 {", "consumer", "TestRule28ExactForBuyers",
	},
	{
		"28", "whose order was released asks the gate", "admission/sold_out_read.go",
		"for _, r := range page.List {", "for _, r := range page.List {\n\t\t\tif r.State == Released {\n\t\t\t\tcontinue\n\t\t\t}", "consumer", "TestRule28ReleasedBuyers",
	},
	{
		"28", "the limit is told before sold out, from memory too", "admission/sold_out.go",
		"a.Quantity > limit", "limit < 0", "consumer", "TestRule28KeysAndLimits",
	},
	{
		"28", "keys ask the gate while anything is for sale", "admission/sold_out.go",
		"a.Key != \"\" && !r.look.all", "false", "consumer", "TestRule28KeysAndLimits",
	},
	{
		"G1", "no units are taken that are not there", "consumer/sql/settle_stock.sql",
		" and s.stock >= w.n", "", "consumer", "TestStockGuardIsTheLastWord",
	},
	{
		"G1", "the ledger has no stock below none", "consumer/schema/00001_ledger.sql",
		"check (stock >= 0 and stock <= total)", "check (stock <= total)", "consumer", "TestStockGuardIsTheLastWord",
	},
	{
		"G1", "the gate counts its stock down", "admission/lua/reserve.lua",
		"for sku, n in pairs(taken) do redis.call('HINCRBY', KEYS[2], sku, string.format('%d', -n)) end\n", "", "consumer", "TestCase01OneBuyerAThousandTimes",
	},
	{
		"G2", "the gate counts a buyer's units", "admission/lua/reserve.lua",
		"  if charged + n > limit then", "  if n > limit then", "consumer", "TestCase12LimitCountsUnits",
	},
	{
		"G3", "a poison order is isolated", "consumer/settler_isolate.go",
		"if err == nil || classify(err) != poison {", "if true {", "consumer", "TestCase21PoisonOrder",
	},
	{
		"G3", "a log made anew is settled from its beginning", "consumer/settler_bind.go",
		"if same && log.State.LastSeq >= from.Seq {", "if log.State.LastSeq > 0 || same {", "consumer", "TestPoint24NewLogIsSettledFromItsBeginning",
	},
	{
		"G3", "a log that lost its tail is settled from its beginning", "consumer/settler_bind.go",
		"if same && log.State.LastSeq >= from.Seq {", "if same {", "consumer", "TestPoint22NumbersUsedAgain",
	},
	{
		"G3", "202 only after the ack of the log", "admission/lane_batch.go",
		"	err := l.append(ctx, a.batch)\n", "	var err error\n	l.service.work.Go(func() { _ = l.append(ctx, a.batch) })\n", "consumer", "TestOutcomeUnknown",
	},
	{
		"G3", "a message that cannot be read is kept", "consumer/settler.go",
		"if err := s.Dead.Broken(hold, unreadable...); err != nil {", "if err := hold.Err(); err != nil {", "consumer", "TestUnreadableMessageIsKept",
	},
	{
		"G3", "the log is trimmed below what is settled only", "consumer/log_trim.go",
		"if before > info.TrimBefore {", "if false {", "cmd/seckill", "TestTrimKeepsTheBacklog",
	},
	{
		"G4", "what the ledger has decided reaches the gate in the end", "admission/sweep.go",
		"s.Gate.Settle(ctx, id, p.Epoch, outcomes)", "s.Gate.Settle(ctx, id, p.Epoch, nil)", "consumer", "TestPoint11DiesBeforeTheGateIsTold",
	},
	{
		"G4", "a dead order gives its units back at the gate", "admission/lua/settle.lua",
		"    redis.call('HINCRBY', KEYS[2], sku, quantity)\n", "", "consumer", "TestRule13OutcomesActOnce",
	},
	{
		"G4", "a settled order is told to the gate", "consumer/settler.go",
		"tellGate(tell, s.Gate, s.Logger, decisions)", "tellGate(tell, s.Gate, s.Logger, nil)", "consumer", "TestPoint10DiesAfterCommit",
	},
	{
		"G5", "an order that comes twice in a batch is decided once", "consumer/book.go",
		"		b.decided[o.ID] = was\n", "", "consumer", "TestCase26SameMessageTwice",
	},
	{
		"G6", "the term is locked by the transaction that compares it", "consumer/sql/settle_term.sql",
		" for update", "", "consumer", "TestPoint14LeaseLostInTransaction",
	},
	{
		"pay", "an order is paid by one payment", "consumer/payment.go",
		"		return sameAs(known, p)\n", "		return nil\n", "consumer", "TestPaymentAnswers",
	},
	{
		"pay", "a payment is of the whole amount", "consumer/payment.go",
		"case row.Amount != p.Amount:", "case false:", "consumer", "TestPaymentAnswers",
	},
	{
		"pay", "a payment is signed with the key", "admission/http_payment.go",
		"	if !holds {\n", "	if false && !holds {\n", "admission", "TestPaymentSignature",
	},
	{
		"pay", "a signature is of now", "admission/http_payment.go",
		"err != nil || age.Abs() > signatureAge {", "err != nil || age < 0 && age > 0 {", "admission", "TestPaymentSignature",
	},
	{
		"consent", "without a terminal a change needs --yes", "cmd/seckill/operate_consent.go",
		"; ok || c.yes {", "; ok || c != nil {", "cmd/seckill", "TestQuestionsNameTheEffect",
	},
	{
		"consent", "only a yes goes on", "cmd/seckill/operate_consent.go",
		`if answer == "y" || answer == "yes" {`, `if answer != "n" {`, "cmd/seckill", "TestQuestionsNameTheEffect",
	},
	{
		"upgrade", "a message of a version that is not known is not settled", "admission/order.go",
		"if b.Version != messageVersion {", "if b.Version < messageVersion {", "consumer", "TestMessagesOfTheFormerRelease",
	},
	{
		"trace", "a move tells its trace to the transaction", "consumer/move.go",
		"if err := tellTrace(ctx, tx); err != nil {", "if err := error(nil); err != nil {", "cmd/seckill", "TestTraceOfChanges",
	},
	{
		"trace", "a round that expired nothing is not sent", "consumer/expiry.go",
		"step.Traced() && expired > 0", "step.Traced()", "cmd/seckill", "TestTraceOfChanges",
	},
	{
		"G3", "the log keeps orders for an hour at least", "cmd/seckill/settings.go",
		"c.LogMaxAge }, leastMaxAge,", "c.LogMaxAge }, duplicateWindow,", "cmd/seckill", "TestRefusals",
	},
	{
		"G3", "doctor sees that the log is about to drop orders", "cmd/seckill/doctor_log.go",
		"case maxAge > 0 && age > maxAge/2:", "case false:", "cmd/seckill", "TestDoctorJudges",
	},
	{
		"expiry", "the gate gets the units of expired orders", "consumer/expiry.go",
		"		e.tell(ctx, dead)\n", "", "consumer", "TestCase15ExpiresWithoutTraffic",
	},
	{
		"expiry", "an order expires after its deadline only", "consumer/sql/expiry_due.sql",
		"pay_before <= statement_timestamp()", "pay_before <= statement_timestamp() + interval '1 second'", "consumer", "TestCase15ExpiresWithoutTraffic",
	},
	{
		"expiry", "a paid order does not expire", "consumer/expiry.go",
		"if row.Status == admission.PendingPayment {", "if row.Status != admission.Expired {", "consumer", "TestCase14PaymentAtTheDeadline",
	},
	{
		"expiry", "one process at a time expires, under a lease", "cmd/seckill/serve.go",
		`n.underLease(ctx, "job/expiry", expiry.Run)`, "_ = expiry.Run(ctx)", "cmd/seckill", "TestJobsRunUnderTheirLeases",
	},
	{
		"events", "every change of status is in the outbox", "consumer/schema/00010_outbox_batches.sql",
		"   where n.status <> b.status\n      or (n.refund, n.replaced_by) is distinct from (b.refund, b.replaced_by)\n   group by", "   where (n.refund, n.replaced_by) is distinct from (b.refund, b.replaced_by)\n   group by", "consumer", "TestEventsOfEveryChange",
	},
	{
		"events", "an event is written whoever's search path changes an order", "consumer/schema/00010_outbox_batches.sql",
		"plpgsql set search_path from current as $$\nbegin\n  insert into outbox_batches (order_ids, status, reason)\n  select array_agg(id order by id), n.status", "plpgsql as $$\nbegin\n  insert into outbox_batches (order_ids, status, reason)\n  select array_agg(id order by id), n.status", "consumer", "TestEventsAreOfTheTransaction",
	},
	{
		"events", "an event is on disk before its row is removed", "consumer/events.go",
		"		if ended == nil {\n", "		if ended == nil || ctx.Err() == nil {\n", "consumer", "TestEventsWaitForTheirPredecessor",
	},
	{
		"events", "the next event of an order waits for the one before", "consumer/events.go",
		"if seen[c.ID] || i == eventsPage {", "if i == eventsPage {", "consumer", "TestEventsWaitForTheirPredecessor",
	},
	{
		"events", "an event that comes again has the id that it had", "consumer/events.go",
		"jetstream.MsgIDHeader: {event.ID}", "jetstream.MsgIDHeader: {fmt.Sprint(time.Now())}", "consumer", "TestEventsPublishedAgain",
	},
	{
		"notices", "a change is told to the buyers who wait", "admission/wait.go",
		"	if due {\n", "	if false && due {\n", "consumer", "TestNoticeWakesAtOnce",
	},
	{
		"notices", "a lost notice costs a second", "admission/wait.go",
		"			all = true\n", "			all = false\n", "consumer", "TestOrderEvents",
	},
	{
		"notices", "a node has a bounded number of streams", "admission/http_events.go",
		"if h.countStream(1) > mostStreams {", "if h.countStream(1) < 0 {", "consumer", "TestStreamsHaveAnEnd",
	},
	{
		"notices", "a node that stops lets its watchers go", "admission/http_events.go",
		"		case <-h.service.waiting.done:\n			return\n", "", "consumer", "TestStoppingNodeLetsWatchersGo",
	},
	{
		"funnel", "requests under way are bounded", "admission/funnel.go",
		"f.config.InFlight > 0 && n > int64(f.config.InFlight)", "false && n > 0", "admission", "TestFunnelRefuses",
	},
	{
		"funnel", "a buyer has a rate", "admission/funnel.go",
		"if wait := f.buyers.take(user, weight, time.Now()); wait > 0 {", "if wait := f.buyers.take(user, weight, time.Now()); wait < 0 {", "admission", "TestFunnelRefuses",
	},
	{
		"funnel", "an address has a rate", "admission/funnel.go",
		"if wait := f.addresses.take(Network(from), 1, time.Now()); wait > 0 {", "if wait := f.addresses.take(network(from), 1, time.Now()); wait < 0 {", "admission", "TestFunnelRefuses",
	},
	{
		"funnel", "only a proxy is believed whom it forwards for", "admission/funnel.go",
		"	if !within(f.config.Proxies, from) {\n		return from, true\n	}\n	hops", "	hops", "admission", "TestFunnelAddresses",
	},
	{
		"funnel", "denied buyers are turned away", "admission/funnel.go",
		"if f.config.Denied.buyer(user) {", "if false && f.config.Denied.buyer(user) {", "admission", "TestFunnelRefuses",
	},
	{
		"funnel", "a spoilt deny list leaves that of before", "admission/funnel_deny.go",
		"	if err != nil {\n		return fmt.Errorf(\"read the deny list %s: %w\", d.path, err)\n	}\n	d.list.Store(list)", "	if err != nil {\n		d.list.Store(&denied{})\n		return fmt.Errorf(\"read the deny list %s: %w\", d.path, err)\n	}\n	d.list.Store(list)", "admission", "TestDenyListIsReadAgain",
	},
	{
		"funnel", "a ticket is of one buyer", "admission/funnel_ticket.go",
		"jwt.WithSubject(user), ", "", "admission", "TestTickets",
	},
	{
		"funnel", "a ticket is no proof of identity", "admission/identity_jwt.go",
		"given && !identityType(typ)", "false && given && !identityType(typ)", "admission", "TestTickets",
	},
	{
		"funnel", "a sick store is not asked by new buyers", "admission/breaker.go",
		"b.open.Store(to != gobreaker.StateClosed)", "b.open.Store(false)", "admission", "TestBreakerOpens",
	},
	{
		"identity", "algorithms that nobody configured are refused", "admission/identity_jwt.go",
		"jwt.WithValidMethods(methods), ", "", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a token has an end", "admission/identity_jwt.go",
		", jwt.WithExpirationRequired()}", "}", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a token is of the issuer", "admission/identity_jwt.go",
		"	if c.Issuer != \"\" {\n", "	if false {\n", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a token is for this audience", "admission/identity_jwt.go",
		"	if c.Audience != \"\" {\n", "	if false {\n", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a token with extensions that must be understood is refused", "admission/identity_jwt.go",
		"; critical {", "; false && critical {", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a subject is the name of a buyer", "admission/identity_jwt.go",
		"if !ValidUser(claims.Subject) {", "if false {", "admission", "TestJWTRefusals",
	},
	{
		"identity", "a remembered token ends too", "admission/identity_verified.go",
		"ok && !now.Before(t.end)", "false && !now.Before(t.end)", "admission", "TestVerifiedTokens",
	},
	{
		"identity", "tokens of a withdrawn key are forgotten", "admission/identity_keys.go",
		"	if !same {\n", "	if false && !same {\n", "admission", "TestKeysRotate",
	},
	{
		"identity", "unknown kids cause one reading in a while", "admission/identity_keys.go",
		"if time.Now().Before(k.next) {", "if false {", "admission", "TestKeysRotate",
	},
	{
		"identity", "small RSA keys sign nothing", "admission/identity_keys.go",
		"if public.N.BitLen() >= minRSABits {", "if true {", "admission", "TestKeysOfOtherKinds",
	},
	{
		"identity", "the header is believed of trusted addresses only", "admission/identity.go",
		"!within(trusted, from.Addr().Unmap())", "!from.IsValid()", "admission", "TestHeaderIdentity",
	},
	{
		"identity", "an operator has a token", "cmd/seckill/admin_door.go",
		"	if found < 0 {\n", "	if found < 0 && len(d.tokens) > 0 {\n		found = 0\n	}\n	if found < 0 {\n", "cmd/seckill", "TestAdminTokens",
	},
	{
		"identity", "a token that may read changes nothing", "cmd/seckill/admin_door.go",
		"case changes && who.readOnly && ", "case false && ", "cmd/seckill", "TestAdminTokens",
	},
	{
		"operators", "every route but the open ones is behind the door", "cmd/seckill/admin_routes.go",
		"	if !openRoutes[pattern] {\n", "	if !openRoutes[pattern] && !strings.HasSuffix(pattern, \"/locks/release\") {\n", "cmd/seckill", "TestAdminTokens",
	},
	{
		"operators", "a browser shows that its page has read the login", "cmd/seckill/admin_door.go",
		"case changes && who.session != nil && ", "case false && ", "cmd/seckill", "TestConsoleSession",
	},
	{
		"operators", "a page of another site changes nothing", "cmd/seckill/admin_routes.go",
		"if err := sameSite.Check(req); err != nil {", "if err := sameSite.Check(req); err == http.ErrAbortHandler {", "cmd/seckill", "TestConsoleSession",
	},
	{
		"operators", "guesses at the login are limited", "cmd/seckill/admin_session.go",
		"if a.door.wrong.over(in.remote, now) {", "if false {", "cmd/seckill", "TestGuessesAreLimited",
	},
	{
		"operators", "guesses with bearer tokens are limited", "cmd/seckill/admin_door.go",
		"	case over:\n", "	case over && false:\n", "cmd/seckill", "TestGuessesAreLimited",
	},
	{
		"operators", "wrong bearer tokens and cookies count as guesses", "cmd/seckill/admin_door.go",
		"		d.wrong.wrong(r.RemoteAddr, given, now)\n", "", "cmd/seckill", "TestGuessesAreLimited",
	},
	{
		"operators", "guesses are counted by address", "cmd/seckill/admin_attempts.go",
		"	peer, err := netip.ParseAddrPort(remote)\n", "	peer, err := netip.ParseAddrPort(\"192.0.2.1:1\")\n", "cmd/seckill", "TestGuessesAreLimited",
	},
	{
		"operators", "the same wrong token again is no guess", "cmd/seckill/admin_attempts.go",
		"if slices.Contains(g.gave[:], sum) {", "if slices.Contains(g.gave[:0], sum) {", "cmd/seckill", "TestGuessesKeepNobodyOut",
	},
	{
		"operators", "who guesses ends no session behind the same proxy", "cmd/seckill/admin_door.go",
		"over = over && !d.sessions.has(given)", "over = over && given != \"\"", "cmd/seckill", "TestGuessesKeepNobodyOut",
	},
	{
		"operators", "a forged cookie says nothing about a token", "cmd/seckill/admin_door.go",
		"		over = over && ", "		over = false && ", "cmd/seckill", "TestGuessesKeepNobodyOut",
	},
	{
		"operators", "the addresses of who guesses are bounded", "cmd/seckill/admin_attempts.go",
		"simplelru.NewLRU[string, *guesser](rememberedAddresses, nil)", "simplelru.NewLRU[string, *guesser](rememberedAddresses<<10, nil)", "cmd/seckill", "TestGuessersAreBounded",
	},
	{
		"operators", "of a lane one job runs at a time", "cmd/seckill/jobs.go",
		"if other.view.State == jobRunning && ", "if other.view.State == \"\" && ", "cmd/seckill", "TestJobs",
	},
	{
		"operators", "a group of dead letters is only those that look alike", "cmd/seckill/admin_dlq_group.go",
		"if groupOf(l) != [3]string{g.Activity, g.Reason, g.Detail} {", "if l.Number == 0 {", "cmd/seckill", "TestSaleIsRescuedByTheConsole",
	},
	{
		"operators", "a change of stock is done once under its key", "consumer/ledger_stock.go",
		"d.Activity, d.SKU, d.Delta, d.Key, o.Name, o.Reason)", "d.Activity, d.SKU, d.Delta, \"\", o.Name, o.Reason)", "cmd/seckill", "TestStockByRouteAndCommand",
	},
	{
		"operators", "a difference is one only if the gate's second mark is as the first", "consumer/moment.go",
		"after.Equal(g.Mark)", "after.Equal(after)", "consumer", "TestMomentsAddUpUnderTraffic",
	},
	{
		"body", "members are known to the letter", "admission/body.go",
		"		return fmt.Errorf(\"%q is not a member of an order\", member)\n", "		_ = fmt.Sprint()\n", "consumer", "TestCase03HostileInput",
	},
	{
		"body", "nothing follows the order", "admission/body.go",
		"err != io.EOF {", "err == io.ErrShortWrite {", "consumer", "TestCase03HostileInput",
	},
	{
		"body", "a quantity is a plain number", "admission/body.go",
		"		if c < '0' || c > '9' {\n", "		if c == '.' {\n", "consumer", "TestCase03HostileInput",
	},
}
