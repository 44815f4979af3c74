package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// replayed is what seckill replay run has printed.
type replayed struct {
	lines   []consumer.ReplayLine
	summary consumer.ReplaySummary
}

func readReplayed(t *testing.T, stdout string) replayed {
	t.Helper()
	var r replayed
	for text := range strings.Lines(stdout) {
		var line struct {
			consumer.ReplayLine
			Summary *consumer.ReplaySummary `json:"summary"`
		}
		if !strings.HasSuffix(text, "\n") {
			break // cut off by a kill
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		if line.Summary != nil {
			r.summary = *line.Summary
			continue
		}
		r.lines = append(r.lines, line.ReplayLine)
	}
	return r
}

// sell lets n buyers ask for one unit of s1 each until they know the truth.
func (s *served) sell(activity string, n int) {
	s.t.Helper()
	for b := range n {
		eventually(s.t, "the buyer knows", func() (bool, string) {
			status, body, err := call(http.MethodPost, "http://"+s.http+"/v1/activities/"+activity+"/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": fmt.Sprint("buyer-", b)})
			known := status == http.StatusAccepted || status == http.StatusOK || status == http.StatusConflict
			return err == nil && known, fmt.Sprintf("%d %s %v", status, body, err)
		})
	}
}

// A sale is run and closed, and run again as a new one; the closed one cannot be
// opened or changed; then the whole log is replayed, both ways.
func TestCase09RunCloseRunAgainReplayAll(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	s := i.serve()
	body := `{"title":"A sale","skus":[{"sku":"s1","total":20,"limit_per_user":1,"price":100}]}`
	for _, id := range []string{"a1", "a2"} {
		for _, step := range []struct{ method, path, body string }{
			{http.MethodPut, "", body},
			{http.MethodPost, "/open", ""},
		} {
			if status, answer := s.request(step.method, "/admin/v1/activities/"+id+step.path, step.body); status/100 != 2 {
				t.Fatalf("%s%s: %d %s", id, step.path, status, answer)
			}
		}
		s.sell(id, 30)
		i.must(exitDone, "audit", "--activity", id, "--wait", "30s")
		if status, answer := s.request(http.MethodPost, "/admin/v1/activities/"+id+"/close", ""); status != 200 {
			t.Fatalf("close %s: %d %s", id, status, answer)
		}
		for _, step := range []struct{ method, path, body string }{
			{http.MethodPut, "", body},
			{http.MethodPost, "/open", ""},
		} {
			if status, answer := s.request(step.method, "/admin/v1/activities/"+id+step.path, step.body); status != http.StatusConflict || !strings.Contains(answer, "/closed") {
				t.Errorf("%s %s%s of a closed sale: %d %s, want 409 closed", step.method, id, step.path, status, answer)
			}
		}
	}
	const state = `select string_agg(format('%s %s %s %s', id, status, stock, total), ',' order by id) from orders join skus using (activity_id, sku_id)`
	before := i.query(state)
	r := readReplayed(t, i.must(exitDone, "replay", "run", "--yes").stdout)
	if r.summary.Already != 40 || r.summary.Matched != 40 || len(r.lines) != 40 {
		t.Errorf("replayed by republish: %+v", r.summary)
	}
	if got := i.must(exitFailed, "replay", "run", "--mode", "apply", "--yes"); !strings.Contains(got.stderr, "is held by") {
		t.Errorf("apply beside a worker: %s", got.stderr)
	}
	i.must(exitDone, "audit", "--wait", "30s")
	if code := s.stop(); code != exitDone {
		t.Errorf("serve ended with %d: %s", code, s.stderr)
	}
	r = readReplayed(t, i.must(exitDone, "replay", "run", "--mode", "apply", "--yes", "--actor", "ann", "--reason", "drill").stdout)
	if r.summary.Already != 40 || r.summary.Matched != 40 {
		t.Errorf("replayed by apply: %+v", r.summary)
	}
	if after := i.query(state); after != before {
		t.Errorf("a replay has changed the ledger:\n%s\n%s", before, after)
	}
	i.must(exitDone, "audit", "--wait", "30s")
	plan := readReplayed(t, i.must(exitDone, "replay", "plan").stdout)
	if plan.summary.Already != 40 || plan.summary.Run != "" {
		t.Errorf("planned: %+v", plan.summary)
	}
	if n := i.query(`select count(*)::text from activity_log where action = 'replay' and actor = 'ann' and reason = 'drill'`); n != "1" {
		t.Errorf("%s entries in the activity log", n)
	}
}

func TestReplayUsage(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	for _, args := range [][]string{
		{"run"}, // nobody to ask
		{"run", "--yes", "--mode", "copy"},
		{"run", "--yes", "--since", "yesterday"},
		{"run", "--yes", "--partition", "16"},
		{"run", "--yes", "--rate", "-1"},
		{"run", "--yes", "--resume", "7"},
		{"run", "--yes", "--resume", admission.NewID(), "--sku", "s1"},
		{"plan", "--from-seq", "9", "--to-seq", "8"},
	} {
		got := i.must(exitUsage, append([]string{"replay"}, args...)...)
		if got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("replay %v: %q and %q", args, got.stdout, got.stderr)
		}
	}
}

// child is a command in a process of its own, so that it can be signalled.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr lockedBuffer
}

func (i *installation) start(args ...string) *child {
	i.t.Helper()
	path, err := binary()
	must(i.t, err)
	c := &child{cmd: exec.Command(path, args...)}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = i.env, &c.stdout, &c.stderr
	must(i.t, c.cmd.Start())
	i.t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// A replay is interrupted, and killed, in the middle; resumed, it ends as if it had
// not been: every order once, and the counts are right.
func TestReplayInterruptedIsResumed(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill -9": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t, "etcd")
			p := i.serve()
			const orders = 120
			i.open(p, orders)
			c := newCrowd(t, p)
			c.buy(orders)
			i.audit(orders)
			run := i.start("replay", "run", "--rate", "20", "--yes")
			until(t, "the replay is in the middle", func() bool {
				return i.queryInt(`select coalesce(max(matched), 0)::int from replays`) > 0
			})
			must(t, run.cmd.Process.Signal(sig))
			_ = run.cmd.Wait()
			if code := run.cmd.ProcessState.ExitCode(); sig == syscall.SIGINT && code != exitFailed {
				t.Errorf("interrupted: exit %d, %s", code, run.stderr.String())
			}
			first := readReplayed(t, run.stdout.String())
			pool := i.queryInt(`select count(*)::int from replays where finished_at is null and matched between 1 and 119`)
			if pool != 1 {
				t.Fatalf("the replay was not stopped in the middle: %s%s", run.stdout.String(), run.stderr.String())
			}
			id := i.queryText(`select id::text from replays`)
			if sig == syscall.SIGINT && (first.summary.Run != id || !strings.Contains(run.stderr.String(), "--resume "+id)) {
				t.Errorf("interrupted: %s%s", run.stdout.String(), run.stderr.String())
			}
			began := time.Now()
			code, stdout, stderr := i.run("replay", "run", "--resume", id, "--yes")
			t.Logf("resumed in %v", time.Since(began))
			rest := readReplayed(t, stdout)
			want := consumer.ReplayCounts{Read: rest.summary.Read, Matched: orders, Already: orders}
			if code != exitDone || rest.summary.ReplayCounts != want {
				t.Errorf("resumed: exit %d, %+v, want %+v; %s", code, rest.summary, want, stderr)
			}
			seen := map[string]bool{}
			for _, line := range append(first.lines, rest.lines...) {
				seen[line.OrderID] = true
			}
			if len(seen) != orders || len(rest.lines) >= orders {
				t.Errorf("%d orders reported, %d of them after the interrupt; want %d, and not all of them again", len(seen), len(rest.lines), orders)
			}
			i.audit(orders)
			c.decided(i)
		})
	}
}

func (i *installation) queryText(sql string) string {
	i.t.Helper()
	pool, err := consumer.OpenPool(i.t.Context(), i.setting("SECKILL_POSTGRES_URL"), i.setting("SECKILL_NAMESPACE"), 2)
	must(i.t, err)
	defer pool.Close()
	var text string
	must(i.t, pool.QueryRow(i.t.Context(), sql).Scan(&text))
	return text
}

// A page of help fits the commands: selectors of plan and run are the same.
func TestReplaySelectorsInHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plan", "run"} {
		help := runWith(t, nil, "replay", name, "--help").stdout
		for _, flag := range selectors {
			if !bytes.Contains([]byte(help), []byte("--"+flag+" ")) {
				t.Errorf("replay %s has no --%s", name, flag)
			}
		}
	}
}
