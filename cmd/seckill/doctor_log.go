package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
)

const (
	// leastMaxAge is how long the log keeps orders at least: whoever is paged because
	// settlement stands must have the time to mend it.
	leastMaxAge = time.Hour
	// shortestMaxAge is what an outage of the workers may well take.
	shortestMaxAge = 24 * time.Hour
)

// judgeStream compares the order log with what it is created as.
func judgeStream(out *checks, c Config, s jetstream.StreamConfig) {
	edit := "nats stream edit " + s.Name + " "
	anew := "it cannot be changed in place: stop the API nodes, wait until seckill audit is at rest, stop the workers, delete the stream; it is created as it should be at the next start"
	found := len(out.list)
	lasting := func(bad bool, what, breaks, mend string) {
		if bad {
			out.finding(serious, "order log", what, breaks, mend).lasting()
		}
	}
	lasting(s.Storage != jetstream.FileStorage, "it is kept in memory", "G3: accepted orders are gone when NATS restarts", anew)
	lasting(s.PersistMode == jetstream.AsyncPersistMode, "it is written after the acknowledgement (persist mode async)", "G3: accepted orders are gone when NATS is killed", anew)
	lasting(s.NoAck, "it acknowledges nothing (no_ack)", "every order is answered with outcome-unknown", edit+"--ack")
	lasting(s.Retention != jetstream.LimitsPolicy, "its retention is "+s.Retention.String(), "G3: an acknowledged message is deleted, so it cannot be settled again after the ledger fell back, nor replayed", anew)
	lasting(s.Discard != jetstream.DiscardNew, "when it is full, the oldest messages are dropped", "G3: accepted orders are dropped unsettled", edit+"--discard new")
	lasting(s.MaxMsgsPerSubject > 0, fmt.Sprintf("it keeps %d messages a sale", s.MaxMsgsPerSubject), "G3: accepted orders are dropped unsettled", edit+"--max-msgs-per-subject=-1")
	lasting(s.MaxMsgSize > 0 && s.MaxMsgSize < admission.MaxBatchBytes*5/4, fmt.Sprintf("its longest message is %d bytes", s.MaxMsgSize), "503 in the busiest moments: large batches are refused", edit+"--max-msg-size=-1")
	if subject := c.Namespace + ".orders.>"; !slices.Contains(s.Subjects, subject) {
		out.finding(serious, "order log", "it does not take subject "+subject, "no order is accepted (503)", edit+"--subjects '"+subject+"'")
	}
	if s.Duplicates < duplicateWindow {
		out.finding(note, "order log", fmt.Sprintf("it recognises a repeated message for %v", s.Duplicates), "nothing: the order id in the ledger guards (G5); late repeats are settled for nothing",
			edit+"--dupe-window 2m")
	}
	if s.MaxBytes <= 0 {
		out.finding(warning, "order log", "its size has no limit", "503: a full disk stops all of JetStream, not only this log", edit+"--max-bytes 8GiB")
	}
	if s.MaxAge > 0 && s.MaxAge < shortestMaxAge {
		out.finding(warning, "order log", fmt.Sprintf("messages are dropped after %v, settled or not", s.MaxAge),
			fmt.Sprintf("G3: if no worker settles for %v, accepted orders are lost", s.MaxAge), edit+"--max-age 168h, and SECKILL_LOG_MAX_AGE=168h")
	}
	if s.Replicas < c.LogReplicas {
		out.finding(serious, "order log", fmt.Sprintf("%d replicas, and %d are configured", s.Replicas, c.LogReplicas), "G3: an accepted order is on fewer servers than it is meant to be",
			fmt.Sprintf("%s--replicas %d", edit, c.LogReplicas)).lasting()
	}
	if len(out.list) == found {
		out.ok("order log", "file storage, limits, discard new, max age %v, max bytes %d, duplicates %v", s.MaxAge, s.MaxBytes, s.Duplicates)
	}
}

// lookAtBacklog compares the age of what is not settled with what the log keeps.
func lookAtBacklog(ctx context.Context, c Config, out *checks) {
	oldest, maxAge, err := readBacklog(ctx, c)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound): // which lookAtNATS says
	case err != nil:
		out.unknown("oldest unsettled order", "it cannot be read: "+oneLine(err.Error()), "seckill migrate, if the ledger is new; else ask again when Postgres and NATS answer")
	default:
		judgeBacklog(out, oldest, time.Now(), maxAge)
	}
}

// readBacklog reads since when the oldest unsettled order waits, and how long the log
// keeps it.
func readBacklog(ctx context.Context, c Config) (oldest time.Time, maxAge time.Duration, err error) {
	s, err := openStores(ctx, c)
	if err != nil {
		return oldest, 0, err
	}
	defer s.close()
	stream, err := s.log.JetStream().Stream(ctx, strings.ToUpper(c.Namespace)+"_ORDERS")
	if err != nil {
		return oldest, 0, err
	}
	oldest, err = s.audit(c, "", 0).OldestUnsettled(ctx)
	return oldest, stream.CachedInfo().Config.MaxAge, err
}

func judgeBacklog(out *checks, oldest, now time.Time, maxAge time.Duration) {
	const check = "oldest unsettled order"
	age := now.Sub(oldest).Round(time.Second)
	switch {
	case oldest.IsZero():
		out.ok(check, "there is none")
	case maxAge > 0 && age > maxAge/2:
		out.finding(serious, check, fmt.Sprintf("it waits for %v, and the log drops it after %v", age, maxAge),
			"G3: accepted orders are dropped unsettled", "nats stream edit with --max-age 0 at once, then have the workers settle: seckill lock list, and their logs")
	default:
		out.ok(check, "it waits for %v", age)
	}
}

// judgeSpace compares the limit of the log with the file system below it, if that is
// on this machine.
func judgeSpace(out *checks, info *jetstream.StreamInfo, server *varz) {
	const check = "space for the log"
	left := info.Config.MaxBytes - int64(info.State.Bytes)
	if info.Config.MaxBytes <= 0 {
		return // named above
	}
	if server == nil || server.JetStream.Config == nil {
		out.unknown(check, "the file system of NATS cannot be seen", "SECKILL_NATS_MONITOR_URL, and run this on the machine of NATS; or compare there by hand: df on the store_dir of JetStream")
		return
	}
	dir := server.JetStream.Config.StoreDir
	free, ok := freeBytes(dir)
	if !ok {
		out.unknown(check, "folder "+dir+" of NATS is not on this machine",
			fmt.Sprintf("run this on the machine of NATS, or see there by df that %d bytes are free in it", left))
		return
	}
	if free < left {
		out.finding(warning, check, fmt.Sprintf("the log may grow by %d bytes, %d are free in %s", left, free, dir),
			"503: a full disk stops all of JetStream before the log's own limit refuses orders one by one",
			"free or add space, or nats stream edit "+info.Config.Name+" --max-bytes with less")
		return
	}
	out.ok(check, "the log may grow by %d bytes, %d are free", left, free)
}

// freeBytes is what a folder's file system has left; false: it is not on this machine.
func freeBytes(dir string) (int64, bool) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return 0, false
	}
	return freeOnDisk(dir)
}

func lookAtConsumers(ctx context.Context, c Config, stream jetstream.Stream, out *checks) {
	const check = "consumers"
	found := map[string]jetstream.ConsumerConfig{}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		found[info.Name] = info.Config
	}
	if err := list.Err(); err != nil {
		out.unknown(check, "they cannot be listed: "+oneLine(err.Error()), "ask again when JetStream answers")
		return
	}
	if len(found) == 0 {
		out.unknown(check, "there are none yet", "start a worker once (seckill serve --roles worker), then ask again")
		return
	}
	wrong := map[flaw][]string{}
	for partition := range c.Partitions {
		name := consumer.ConsumerName(partition)
		config, ok := found[name]
		if !ok {
			missing := flaw{warning, "missing", "their partitions are not settled now", "start a worker: it creates them"}
			wrong[missing] = append(wrong[missing], name)
			continue
		}
		for _, f := range flaws(c, config, c.Namespace+fmt.Sprintf(".orders.%d.>", partition)) {
			wrong[f] = append(wrong[f], name)
		}
	}
	for f, names := range wrong {
		out.finding(f.severity, check, fmt.Sprintf("%s: %s", few(names), f.found), f.breaks, f.mend)
	}
	if len(wrong) == 0 {
		out.ok(check, "%d, ack explicit, AckWait %v, MaxDeliver -1", c.Partitions, c.LogAckWait)
	}
}

// flaw is what can be wrong with a consumer.
type flaw struct {
	severity            severity
	found, breaks, mend string
}

func flaws(c Config, config jetstream.ConsumerConfig, filter string) []flaw {
	const anew = "stop the workers, delete the consumer (nats consumer rm), start them: it is created as it should be, at the ledger's position"
	var list []flaw
	add := func(bad bool, s severity, found, breaks string) {
		if bad {
			list = append(list, flaw{s, found, breaks, anew})
		}
	}
	add(config.AckPolicy != jetstream.AckExplicitPolicy, serious, "ack "+config.AckPolicy.String(), "G3: orders count as settled when they are delivered, or with a later one")
	add(config.MaxDeliver > 0, serious, fmt.Sprintf("MaxDeliver %d", config.MaxDeliver), "G3: an order that was delivered so often is not delivered again until the partition is taken anew")
	add(config.DeliverPolicy != jetstream.DeliverAllPolicy, serious, "it does not deliver all", "G3: orders before its start are not settled, and it cannot be set back to the ledger's position")
	add(config.FilterSubject != filter, serious, "filter "+config.FilterSubject, "G3: orders of its partition are not settled")
	add(len(config.BackOff) > 0, warning, "it has a BackOff", "orders of a dead worker wait longer than AckWait")
	add(config.PauseUntil != nil && config.PauseUntil.After(time.Now()), warning, "it is paused", "orders stay accepted until the pause ends")
	add(config.InactiveThreshold > 0, note, "it is deleted when nobody asks", "nothing: it is created again, and the ledger has the position")
	add(config.AckWait != c.LogAckWait, note, fmt.Sprintf("AckWait %v, and %v is configured", config.AckWait, c.LogAckWait), "nothing yet: the setting has no effect on a consumer that exists")
	add(config.AckWait <= c.LockTTL && config.AckWait != c.LogAckWait, warning, fmt.Sprintf("AckWait %v is not above the lease's %v", config.AckWait, c.LockTTL),
		"orders are delivered again while they are being settled; G5 holds, the work is done twice")
	return list
}

// few lists some names and counts the rest.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}
