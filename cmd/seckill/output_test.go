package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"seckill/deploy/stack/stacktest"
)

// What the main commands print, as a table and as JSON: scripts read the one, people
// the other, and both notice when it changes.
func TestOutput(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_PARTITIONS=1")
	file := write(t, springFile)
	print := func(name string, args ...string) ran { t.Helper(); return i.golden(name, exitDone, args...) }
	print("activity_apply", "activity", "apply", "-f", file, "--yes")
	print("activity_open", "activity", "open", "spring", "--yes")
	print("order_place", "order", "place", "spring", "s1", "--user", "bob", "--key", "k", "--yes")
	print("order_list_accepted", "order", "list", "--activity", "spring", "--status", "accepted")
	s := i.serve()
	i.must(exitDone, "audit", "--wait", "30s")
	i.unreadable()
	print("activity_stock", "activity", "stock", "spring", "s2", "--delta=5", "--reason", "second pallet", "--key", "p2", "--yes")
	print("activity_list", "activity", "list")
	print("activity_show", "activity", "show", "spring")
	listed := print("order_list", "order", "list", "--activity", "spring")
	print("order_get", "order", "get", uuidShape.FindString(listed.stdout))
	print("audit", "audit")
	print("reconcile", "reconcile", "--yes")
	print("dlq_list", "dlq", "list")
	print("dlq_show", "dlq", "show", "letter-1")
	print("log_info", "log", "info")
	print("replay_plan", "replay", "plan")
	print("replay_run", "replay", "run", "--yes")
	dropped := i.must(exitDone, "dlq", "drop", "letter-1", "--reason", "written by a test", "--yes", "--output", "json") // once is once
	golden(t, "output/dlq_drop.txt", dropped.stdout)
	print("order_cancel", "order", "cancel", uuidShape.FindString(listed.stdout), "--reason", "asked for", "--yes")
	if code := s.stop(); code != exitDone {
		t.Errorf("serve ended with %d: %s", code, s.stderr)
	}
	i.query(`update skus set stock = stock - 1 where sku_id = 's2' returning sku_id`)
	i.golden("audit_finding", exitFinding, "audit")
	i.golden("reconcile_plan", exitFinding, "reconcile", "--dry-run", "--wait", "1s")
	print("lock_list", "lock", "list")
	print("lock_switch", "lock", "switch", "--to", "etcd", "--yes")
	print("migrate", "migrate", "--yes")
	print("version", "version")
}

// golden compares what a command prints with a file, as a table and, the second time
// the command runs, as JSON. It returns the first run.
func (i *installed) golden(name string, code int, args ...string) ran {
	i.t.Helper()
	table := i.must(code, args...)
	asJSON := i.must(code, append(args, "--output", "json")...)
	for line := range strings.Lines(asJSON.stdout) {
		if strings.HasPrefix(line, "{") && !json.Valid([]byte(asJSON.stdout)) && !json.Valid([]byte(line)) {
			i.t.Errorf("%s --output json is neither JSON nor JSON Lines: %s", name, asJSON.stdout)
			break
		}
	}
	text := fmt.Sprintf("--- stdout\n%s--- stderr\n%s--- json\n%s", table.stdout, table.stderr, asJSON.stdout)
	if strings.Contains(text, "\x1b") {
		i.t.Errorf("%s moves a cursor or colours text where there is no terminal: %q", name, text)
	}
	golden(i.t, "output/"+name+".txt", i.plain(text))
	return table
}

// unreadable puts a message into the log that no release can read, and waits for its
// dead letter.
func (i *installed) unreadable() {
	i.t.Helper()
	nc, err := nats.Connect(stacktest.Get(i.t).NATSURL())
	must(i.t, err)
	defer nc.Close()
	_, err = nc.Request(i.namespace+".orders.0.spring", []byte("not JSON"), nats.DefaultTimeout)
	must(i.t, err)
	eventually(i.t, "a dead letter", func() (bool, string) {
		got := i.must(exitDone, "dlq", "list")
		return strings.Contains(got.stdout, "letter-1"), got.stdout
	})
}

var (
	uuidShape  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timeShape  = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	epochShape = regexp.MustCompile(`\b1[78]\d{11}\b`)
	sizeShape  = regexp.MustCompile(`(bytes"?:?\s+)\d+`)
	// The instance that holds a lease: host, process and a number.
	holderShape = regexp.MustCompile(`host-\d+-[0-9a-f]+`)
	buildShape  = regexp.MustCompile(`(?m)^( *"?(?:commit|go)"?:? +"?)[^"\s,]+`) // of version
	gapShape    = regexp.MustCompile(`(\S)  +`)
)

// plain replaces what differs from run to run.
func (i *installed) plain(text string) string {
	text = strings.ReplaceAll(text, strings.ToUpper(i.namespace), "NAMESPACE")
	text = strings.ReplaceAll(text, i.namespace, "namespace")
	if host, err := os.Hostname(); err == nil && host != "" {
		text = strings.ReplaceAll(text, host, "host")
	}
	text = buildShape.ReplaceAllString(text, "${1}BUILD")
	text = holderShape.ReplaceAllString(text, "HOLDER")
	text = uuidShape.ReplaceAllString(text, "UUID")
	text = timeShape.ReplaceAllString(text, "TIME")
	text = epochShape.ReplaceAllString(text, "EPOCH")
	text = sizeShape.ReplaceAllString(text, "${1}BYTES")
	return gapShape.ReplaceAllString(text, "$1  ")
}
