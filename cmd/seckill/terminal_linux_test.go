package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what a person at the keyboard sees and types.
type terminal struct {
	screen *os.File // their end
	line   *os.File // the program's end
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	must(t, err)
	line, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(line.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	t.Cleanup(func() { _, _ = line.Close(), screen.Close() })
	return &terminal{screen, line}
}

// runAt runs a command line at a terminal on which answer has been typed.
func (i *installed) runAt(answer string, args ...string) ran {
	i.t.Helper()
	terminal := newTerminal(i.t)
	_, err := terminal.screen.WriteString(answer + "\n")
	must(i.t, err)
	var stdout, stderr bytes.Buffer
	code := newProgram(func() []string { return i.environ }).Run(i.t.Context(), args, terminal.line, &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// Before it changes something a command says what will happen to how many, in which
// activity; who does not say yes changes nothing.
func TestQuestionsNameTheEffect(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	file := write(t, springFile)
	question := func(want string, args ...string) {
		t.Helper()
		got := i.runAt("", args...)
		if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, "nothing was changed") {
			t.Errorf("%v, not confirmed: exit %d: %s%s", args, got.code, got.stdout, got.stderr)
		}
		if !strings.Contains(got.stderr, want+"\nGo on? [y/N] ") {
			t.Errorf("%v asks %q, want %q", args, got.stderr, want)
		}
		if got := i.must(exitUsage, args...); !strings.Contains(got.stderr, "give --yes") {
			t.Errorf("%v without a terminal: %s", args, got.stderr)
		}
	}
	yes := func(args ...string) {
		t.Helper()
		if got := i.runAt("y", args...); got.code != exitDone {
			t.Fatalf("%v, confirmed: exit %d: %s", args, got.code, got.stderr)
		}
	}
	question("Schema "+i.namespace+", now of version "+i.query(`select max(version_id)::text from goose_db_version`)+", is brought to that of this release.", "migrate")
	question("Activity spring is created as a draft: 15 units of 2 SKUs. Nobody can buy before it is opened.", "activity", "apply", "-f", file)
	yes("activity", "apply", "-f", file)
	question("Activity spring (draft) opens to buyers: 15 units of 2 SKUs are for sale at once.", "activity", "open", "spring")
	yes("activity", "open", "spring")
	question("Activity spring (open) with 15 units of 2 SKUs becomes what "+file+" says: 15 units of 2 SKUs.", "activity", "apply", "-f", file)
	question("An order of 2 units of s1 in activity spring is placed for bob.", "order", "place", "spring", "s1", "--user", "bob", "--quantity", "2")
	yes("order", "place", "spring", "s1", "--user", "bob", "--quantity", "2")
	id := uuidShape.FindString(i.must(exitDone, "order", "list", "--activity", "spring", "--status", "accepted").stdout)
	question("Order "+id+" (accepted, 2 units of s1 for bob in activity spring) is cancelled: its units can be sold again.", "order", "cancel", id, "--reason", "r")
	question("1 order of messages 1 to 1 pass through settlement again (republish): 0 are decided and stay so, 0 are held, 1 have no decision yet.", "replay", "run")
	question("Activity spring (open) gets 5 units of s2 more, for sale at once: its total of 5 becomes 10.", "activity", "stock", "spring", "s2", "--delta=5", "--reason", "r")
	question("Activity spring (open) loses 1 unit of s2, if they are free: its total of 5 becomes 4. It sells nothing for some seconds meanwhile.", "activity", "stock", "spring", "s2", "--delta=-1", "--reason", "r")
	question("Activity spring (open) admits nobody until it is resumed; 15 of 15 units are not sold.", "activity", "pause", "spring")
	question("Activity spring (open) ends for good, and its id is not used again; 15 of 15 units are not sold.", "activity", "close", "spring")
	question("Messages 1 to 1 of the log are thrown away for good; their orders stay in the ledger, and cannot be replayed.", "log", "trim", "--before-seq", "2")
	question("The leases of all 16 partitions move from etcd to redis; every process has to be configured so and started again.", "lock", "switch", "--to", "redis")
	question("Nobody is seen to hold job/x under token 7; if somebody does then, it is taken from them.", "lock", "release", "job/x", "--token", "7")

	i.query(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
		select '01999999-0000-7000-8000-000000000001', 'spring', 's1', 'cid', 2, 0, 'held', now(), epoch, 0, 0, 0 from activities where id = 'spring' returning 'held'`)
	question("Rejected for good, and their units are for sale again: 1 held order (2 units) of activity spring, 1 message that cannot be read.",
		"dlq", "drop", "01999999-0000-7000-8000-000000000001", "letter-9", "--reason", "r")
	question("Decided now, by limit and stock: 1 held order (2 units) of activity spring, 1 id without a held order.",
		"dlq", "replay", "01999999-0000-7000-8000-000000000001", "01999999-0000-7000-8000-000000000002")
}

// A bar is drawn only on a terminal that can move its cursor, and without colours.
func TestProgressBarIsPlain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		environ []string
		drawn   bool
	}{
		{"terminal", []string{"TERM=xterm-256color"}, true},
		{"no colour", []string{"TERM=xterm-256color", "NO_COLOR=1"}, true},
		{"dumb", []string{"TERM=dumb"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			terminal := newTerminal(t)
			p := newProgram(func() []string { return tc.environ })
			p.stderr = terminal.line
			seen := &lockedBuffer{}
			read := make(chan struct{})
			go func() { // ends when the program's end is closed
				_, _ = io.Copy(seen, terminal.screen)
				close(read)
			}()
			bar := p.newProgress("reading", "messages")
			bar.set(1, 2)
			if tc.drawn {
				eventually(t, "the bar", func() (bool, string) { return strings.Contains(seen.String(), "reading"), seen.String() })
			}
			bar.end()
			must(t, terminal.line.Close())
			<-read
			if text := seen.String(); !tc.drawn && text != "" || regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(text) {
				t.Errorf("on the screen: %q", text)
			}
		})
	}
}
