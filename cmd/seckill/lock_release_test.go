package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"seckill/lockprovider"
)

// openHolder makes a provider that holds leases of the installation.
func (i *installed) openHolder(backend string) *lockprovider.Provider {
	i.t.Helper()
	c, err := readConfig(sources{environ: func() []string { return i.environ }})
	if err != nil {
		i.t.Fatal(err)
	}
	p, end, err := openLeases(i.t.Context(), c, backend)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(end)
	return p
}

func TestLockRelease(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{backendEtcd, backendRedis} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			i := newInstalled(t, backend)
			lease, err := i.openHolder(backend).Acquire(t.Context(), "job/report")
			if err != nil {
				t.Fatal(err)
			}
			token := fmt.Sprint(lease.Token())
			for _, tc := range []struct {
				args []string
				code int
				says string
			}{
				{[]string{"job/report", "--token", token}, exitUsage, "give --yes"},
				{[]string{"job/report", "--yes"}, exitUsage, "seckill lock list"},
				{[]string{"job/report", "--token", "1", "--yes"}, exitFailed, "under token " + token + ", not 1"},
				{[]string{"job/none", "--token", token, "--yes"}, exitFailed, "nobody holds job/none"},
			} {
				got := i.must(tc.code, append([]string{"lock", "release"}, tc.args...)...)
				if !strings.Contains(got.stderr, tc.says) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
					t.Errorf("lock release %v: %s%s", tc.args, got.stderr, got.stdout)
				}
			}
			if err := lease.Verify(t.Context()); err != nil {
				t.Errorf("after what was refused: %v", err)
			}
			i.must(exitDone, "lock", "release", "job/report", "--token", token, "--yes", "--actor", "ann", "--reason", "it hangs")
			<-lease.Context().Done()
			if log := i.query(`select string_agg(actor || '|' || action || '|' || subject || '|' || detail || '|' || reason, ';') from activity_log where action = 'release lock'`); log !=
				"ann|release lock|job/report|token "+token+" on "+backend+"|it hangs" {
				t.Errorf("activity log: %s", log)
			}
			i.must(exitFailed, "lock", "release", "job/report", "--token", token, "--yes")
		})
	}
}

// The admin routes do the same, with a worker in the process and without.
func TestAdminLocks(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{backendEtcd, backendRedis} {
		for _, role := range []string{"api", "api,worker"} {
			t.Run(backend+" "+role, func(t *testing.T) {
				t.Parallel()
				i := newInstalled(t, backend)
				s := i.serve("--roles", role, "--partitions", "2")
				lease, err := i.openHolder(backend).Acquire(t.Context(), "job/report", lockprovider.WithNote("november"))
				if err != nil {
					t.Fatal(err)
				}
				var listed struct {
					Backend string
					Locks   []lockLine
				}
				status, body := s.request(http.MethodGet, "/admin/v1/locks", "")
				if err := json.Unmarshal([]byte(body), &listed); err != nil || status != 200 || listed.Backend != backend {
					t.Fatalf("%d %s: %v", status, body, err)
				}
				found := false
				for _, l := range listed.Locks {
					found = found || l.Name == "job/report" && l.Token == lease.Token() && l.Note == "november" && l.Owner == lease.Owner()
				}
				if !found {
					t.Errorf("no job/report in %s", body)
				}
				ask := func(body string, want int, says string) {
					t.Helper()
					if status, got := s.request(http.MethodPost, "/admin/v1/locks/release", body); status != want || !strings.Contains(got, says) {
						t.Errorf("release %s: %d %s, want %d with %q", body, status, got, want, says)
					}
				}
				ask(`{"name":"job/report"}`, 400, "invalid-request")
				ask(`{"name":"job/report","token":0}`, 400, "invalid-request")
				ask(`{"name":"job/report","token":1}`, 409, "token-mismatch")
				ask(`{"name":"job/none","token":1}`, 404, "not-found")
				ask(fmt.Sprintf(`{"name":"job/report","token":%d}`, lease.Token()), 200, `"released":true`)
				<-lease.Context().Done()
				if n := i.query(`select count(*)::text from activity_log where action = 'release lock' and actor = 'admin API'`); n != "1" {
					t.Errorf("%s entries in the activity log", n)
				}
				resp, err := http.Post("http://"+s.admin+"/admin/v1/locks/release", "application/json", strings.NewReader(`{"name":"x","token":1}`))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("without a token: %d", resp.StatusCode)
				}
			})
		}
	}
}
