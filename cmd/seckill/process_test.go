package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// binary builds the product once for all tests of this package, with the race
// detector if they have it.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "seckill-binary-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "seckill")
	out, err := exec.Command("go", "build", "-race", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build seckill: %w\n%s", err, out)
	}
	return path, nil
})

// installation is one namespace on the shared servers, and the processes on it.
type installation struct {
	t       *testing.T
	servers *stack.Stack
	env     []string
}

func newInstallation(t *testing.T, lockBackend string) *installation {
	t.Helper()
	servers := stacktest.Get(t)
	env := append(servers.Env(lockBackend), "SECKILL_NAMESPACE="+stacktest.Namespace(t), "SECKILL_LOCK_TTL=2s", "PATH="+os.Getenv("PATH"))
	return &installation{t: t, servers: servers, env: env}
}

// setting is a value of the installation's environment.
func (i *installation) setting(name string) string {
	value := ""
	for _, line := range i.env {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			value = v
		}
	}
	return value
}

// run runs a command to its end and returns its exit code and output.
func (i *installation) run(args ...string) (code int, stdout, stderr string) {
	i.t.Helper()
	path, err := binary()
	must(i.t, err)
	cmd := exec.CommandContext(i.t.Context(), path, args...)
	cmd.Env = i.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// process is one seckill serve.
type process struct {
	t           *testing.T
	cmd         *exec.Cmd
	http, admin string
	log         *bytes.Buffer
	ended       chan struct{}
}

var readyLine = regexp.MustCompile(`^ready http=(\S+) admin=(\S+)$`)

// serve starts a process and waits until it is ready. It is killed when the test
// ends.
func (i *installation) serve(extra ...string) *process {
	i.t.Helper()
	path, err := binary()
	must(i.t, err)
	p := &process{t: i.t, cmd: exec.Command(path, "serve"), log: &bytes.Buffer{}, ended: make(chan struct{})}
	p.cmd.Env = append(append([]string{}, i.env...), extra...)
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	must(i.t, err)
	must(i.t, p.cmd.Start())
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			p.http, p.admin = "http://"+m[1], "http://"+m[2]
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	i.t.Cleanup(func() {
		p.kill()
		if i.t.Failed() {
			i.t.Logf("log of process %d:\n%s", p.cmd.Process.Pid, tailOf(p.log.String(), 4000))
		}
	})
	if p.admin == "" {
		<-p.ended
		i.t.Fatalf("seckill serve is not ready: %s", p.log)
	}
	return p
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !strings.Contains(err.Error(), "already finished") {
		p.t.Errorf("send %v: %v", s, err)
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// call is one request; err means that there was no answer.
func call(method, url, body string, header map[string]string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := testClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// testClient keeps no connection: a process that was killed takes none with it.
var testClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// operate sends an operator's request and wants it done.
func (i *installation) operate(p *process, method, path, body string) []byte {
	i.t.Helper()
	status, data, err := call(method, p.admin+path, body, map[string]string{"Authorization": "Bearer " + i.setting("SECKILL_ADMIN_TOKEN")})
	if err != nil || status/100 != 2 {
		i.t.Fatalf("%s %s: %d %s (%v)", method, path, status, data, err)
	}
	return data
}

// open puts and opens activity a1 with one SKU.
func (i *installation) open(p *process, total int) {
	i.t.Helper()
	i.operate(p, http.MethodPut, "/admin/v1/activities/a1", fmt.Sprintf(`{"title":"A sale","skus":[{"sku":"s1","total":%d,"limit_per_user":1,"price":100}]}`, total))
	i.operate(p, http.MethodPost, "/admin/v1/activities/a1/open", "")
}

// auditReport is what seckill audit prints.
type auditReport struct {
	OK         bool `json:"ok"`
	AtRest     bool `json:"at_rest"`
	Activities []struct {
		SKUs []struct {
			Total int64  `json:"total"`
			Stock int64  `json:"stock"`
			Live  int64  `json:"live"`
			Gate  *int64 `json:"gate_stock"`
		} `json:"skus"`
	} `json:"activities"`
	Violations []json.RawMessage `json:"violations"`
	Log        struct {
		Orders int64 `json:"orders"`
		Dead   int64 `json:"dead"`
	} `json:"log"`
}

// audit waits for rest and wants clean books with exactly live units sold.
func (i *installation) audit(live int64) {
	i.t.Helper()
	code, out, errs := i.run("audit", "--wait", "60s", "--output", "json")
	var r auditReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		i.t.Fatalf("seckill audit ended with %d: %s%s", code, out, errs)
	}
	if code != 0 || !r.OK || !r.AtRest || len(r.Violations) > 0 {
		i.t.Errorf("seckill audit ended with %d: %s%s", code, out, errs)
	}
	if got := r.Activities[0].SKUs[0].Live; got != live {
		i.t.Errorf("%d units sold, want %d", got, live)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
