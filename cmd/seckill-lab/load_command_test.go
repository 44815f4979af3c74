package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
)

// staging is a service that somebody else started, in a namespace of its own, with what the load is told of it.
func staging(t *testing.T, activities []string, units int64) (*service, loadOptions) {
	t.Helper()
	if _, err := builtService(); err != nil {
		t.Fatal(err)
	}
	program, _ := builtService()
	servers, dir, namespace := stacktest.Get(t), t.TempDir(), stacktest.Namespace(t)
	s, err := startService(t.Context(), program, append(servers.Env("etcd"), "SECKILL_NAMESPACE="+namespace), filepath.Join(dir, "serve.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	s.token = servers.AdminToken()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(s.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := loadOptions{
		send: sendOptions{
			profile: profile{constantProfile, 400, time.Second}, connections: 16, timeout: 10 * time.Second,
			buyers: 10_000, repeats: 0.3, seed: 1,
		},
		activities: activities, skus: []string{"s1", "s2"}, units: units, lock: "etcd", output: "json",
		target: "http://" + s.public + "/", admins: []string{"http://" + s.admin}, tokenFile: token, namespace: namespace,
		postgresURL: servers.PostgresURL(), monitorURL: servers.NATSMonitorURL(),
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	target, err := o.otherTarget()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openAll(t.Context(), target, units); err != nil {
		t.Fatal(err)
	}
	return s, o
}

func TestLoadOnSomebodysStaging(t *testing.T) {
	t.Parallel()
	_, o := staging(t, []string{"a1", "a2"}, 30)
	o.plotTo = filepath.Join(t.TempDir(), "load.svg")
	var out, words bytes.Buffer
	if err := holdLoad(t.Context(), &out, &words, o); err != nil {
		t.Fatalf("%v\n%s", err, &words)
	}
	var r loadReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	f := r.Figures
	switch {
	case f == nil || !r.Audit.Clean || !r.Audit.Books || !r.Audit.Answers:
		t.Fatalf("not a clean, audited load: %s", &out)
	case f.Asked != 400 || f.Sent != f.Asked || f.Answered+f.Unknown != f.Sent:
		t.Errorf("asked %d, sent %d, answered %d, unknown %d", f.Asked, f.Sent, f.Answered, f.Unknown)
	case f.Admitted != 4*30 || f.Settled == nil || *f.Settled != 4*30:
		t.Errorf("admitted %d, settled %v; there are 120 units", f.Admitted, f.Settled)
	case f.SoldOutMS == nil || *f.SoldOutMS <= 0 || f.DrainMS == nil:
		t.Errorf("sold out %v, drained %v", f.SoldOutMS, f.DrainMS)
	case f.Latency.P50 <= 0 || f.Latency.Max < f.Latency.P99 || f.GC == nil || f.CPU["this sender"] <= 0:
		t.Errorf("latency %+v, GC %+v, CPU %+v", f.Latency, f.GC, f.CPU)
	}
	if r.Durability != (durability{"on", "on", "always"}) {
		t.Errorf("the servers say %+v", r.Durability)
	}
	mustBePlot(t, o.plotTo)
}

// mustBePlot reads the plot as XML and looks for its panels.
func mustBePlot(t *testing.T, path string) {
	t.Helper()
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is not XML: %v", err)
		}
	}
	for _, want := range []string{"requests/s", "admitted/s", "backlog", "latency, ms", "p99", "asked"} {
		if !bytes.Contains(svg, []byte(">"+want)) {
			t.Errorf("the plot says nothing of %q", want)
		}
	}
}

// Books that do not agree leave nothing to be read of a run.
func TestLoadWithoutACleanAuditPrintsNoFigure(t *testing.T) {
	t.Parallel()
	_, o := staging(t, []string{"a1"}, 20)
	db, err := pgx.Connect(t.Context(), o.postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	orders := pgx.Identifier{o.namespace, "orders"}.Sanitize()
	if _, err := db.Exec(t.Context(), `create function `+pgx.Identifier{o.namespace, "lose"}.Sanitize()+`() returns trigger
		language plpgsql as $$ begin delete from `+orders+` where id = new.id; return null; end $$;
		create trigger lose after insert on `+orders+` for each row when (new.user_id like '%7') execute function `+
		pgx.Identifier{o.namespace, "lose"}.Sanitize()+`()`); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"json", "table"} {
		o.output, o.plotTo = output, filepath.Join(t.TempDir(), "none.svg")
		var out bytes.Buffer
		err := holdLoad(t.Context(), &out, io.Discard, o)
		var exit exitError
		if !errors.As(err, &exit) || exit.status != 3 {
			t.Errorf("%s: ends with %v, want status 3", output, err)
		}
		if text := out.String(); !strings.Contains(text, "lost: a1") || regexp.MustCompile(`p99|admitted_per|answered`).MatchString(text) {
			t.Errorf("%s: no violation, or a figure:\n%s", output, text)
		}
		if _, err := os.Stat(o.plotTo); err == nil {
			t.Errorf("%s: a plot was drawn", output)
		}
	}
}

func TestLoadWithoutATargetBringsItsOwn(t *testing.T) {
	t.Parallel()
	if _, err := builtService(); err != nil {
		t.Fatal(err)
	}
	lab, _ := program()
	temp := t.TempDir()
	cmd := exec.Command(lab, "load", "--profile", "spike", "--rate", "300", "--duration", "2s", "--units", "50")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &words)
	}
	for _, want := range []string{
		`audit +clean: ledger, gate and log agree, and every answer is true`, `asked +276;`, `rate (kept|NOT KEPT)`,
		`admitted +50,`, `settled +50`, `sold out after +\d`, `drained after +\d`, `CPU of serve +`, `CPU of postgres`, `GC of the service`,
		`fsync on, synchronous_commit on; order log synced: always`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
	mustBeEmpty(t, temp)
}

func TestLoadRefusesOptionsThatCannotWork(t *testing.T) {
	for want, options := range map[string][]string{
		"use constant, ramp or spike": {"--profile", "wave"},
		"needs a rate":                {"--profile", "spike", "--rate", "0"},
		"choose 1s to 1h":             {"--duration", "2h"},
		"use table or json":           {"--output", "xml"},
		"belong to --target":          {"--postgres-url", "postgres://h/d"},
		"needs the token":             {"--target", "http://h", "--admin", "http://h:1"},
		"is not a name":               {"--activity", "a b"},
		"choose 0 to 1":               {"--repeats", "1.5"},
		"choose 1 to 2147483647":      {"--units", "0"},
	} {
		root := rootCommand()
		root.SetArgs(append([]string{"load"}, options...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", options, err, want)
		}
	}
}
