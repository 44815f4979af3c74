package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// The order log's server is set up as the order log needs it, by its own parser.
func TestNATSConfiguration(t *testing.T) {
	t.Parallel()
	o, err := server.ProcessConfigFile(filepath.Join(deployDir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if !o.JetStream || o.StoreDir != "/data" || !o.SyncAlways || o.Port != 4222 || o.HTTPPort != 8222 {
		t.Errorf("jetstream %v in %q, sync always %v, ports %d and %d", o.JetStream, o.StoreDir, o.SyncAlways, o.Port, o.HTTPPort)
	}
}

// The Dockerfile's own build line makes a static binary that runs.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(deployDir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	line := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /seckill (\./cmd/seckill)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatal("no line builds /seckill")
	}
	built := filepath.Join(t.TempDir(), "seckill")
	build := exec.CommandContext(t.Context(), "sh", "-c", line[1]+" -o "+built+" "+line[2])
	build.Dir, build.Env = "../..", append(os.Environ(), "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := elf.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }()
	libraries, err := binary.ImportedLibraries()
	if err != nil || len(libraries) > 0 || binary.Section(".interp") != nil {
		t.Errorf("not static: needs %v (%v), interpreter %v", libraries, err, binary.Section(".interp") != nil)
	}
	if runtime.GOOS != "linux" {
		return // it is checked above, and does not run here
	}
	if out, err := exec.CommandContext(t.Context(), built, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), "version") {
		t.Errorf("seckill version: %v: %s", err, out)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindStringSubmatch(text)
	if user == nil || user[1] == "0" {
		t.Errorf("the image runs as %v", user)
	}
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(from) != 2 || !strings.HasPrefix(from[0][1], "golang:1.26.") || from[1][1] != "gcr.io/distroless/static-debian12:nonroot" {
		t.Errorf("built on %v", from)
	}
}
