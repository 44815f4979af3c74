package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deployDir = "../../deploy"

// composeFile is what the test looks at; a name that is not here is a mistake or
// wants a check.
type composeFile struct {
	Name     string
	Services map[string]composeService
	Volumes  map[string]struct{}
	Secrets  map[string]struct{ File string }
	Seckill  any `yaml:"x-seckill"`
	Environ  any `yaml:"x-environment"`
}

type composeService struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Secrets     []string
	ReadOnly    bool                                  `yaml:"read_only"`
	CapDrop     []string                              `yaml:"cap_drop"`
	SecurityOpt []string                              `yaml:"security_opt"`
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
	Restart         string
	StopGracePeriod string `yaml:"stop_grace_period"`
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deployDir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// ports are where the servers of the compose file listen.
var ports = map[string][]string{
	"redis": {"6379"}, "nats": {"4222", "8222"}, "etcd": {"2379"}, "postgres": {"5432"},
}

// Every image is the expected one; those of servers that the module has too are its
// versions, which the tests run on.
func TestComposeImages(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"api": "seckill", "worker": "seckill", "migrate": "seckill", "redis": "redis:8.2", "postgres": "postgres:17",
		"nats": "nats:" + strings.TrimPrefix(moduleVersion(t, "github.com/nats-io/nats-server/v2"), "v") + "-alpine",
		"etcd": "gcr.io/etcd-development/etcd:" + moduleVersion(t, "go.etcd.io/etcd/server/v3"),
	}
	c := readCompose(t)
	for name, s := range c.Services {
		if s.Image != want[name] {
			t.Errorf("service %s has image %q, want %q", name, s.Image, want[name])
		}
	}
	if len(c.Services) != len(want) {
		t.Errorf("%d services, want %d", len(c.Services), len(want))
	}
}

func moduleVersion(t *testing.T, module string) string {
	t.Helper()
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (\S+)`).FindStringSubmatch(string(data))
	if found == nil {
		t.Fatalf("go.mod has no %s", module)
	}
	return found[1]
}

// What compose gives the product is a configuration that the product takes.
func TestComposeEnvironment(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t).Services {
		if s.Image != "seckill" {
			continue
		}
		var environ []string
		for key, text := range s.Environment {
			if key, isFile := strings.CutSuffix(key, "_FILE"); isFile {
				secret := filepath.Base(text)
				if text != "/run/secrets/"+secret || !slices.Contains(s.Secrets, secret) {
					t.Errorf("%s: %s_FILE is %s, which no secret of the service is", name, key, text)
				}
				content := "not-a-secret"
				if secret == "postgres_url" {
					content = "postgres://seckill:x@postgres:5432/seckill"
				}
				environ = append(environ, key+"_FILE="+write(t, content))
				continue
			}
			environ = append(environ, key+"="+substituted(text))
		}
		got := runWith(t, environ, "config", "print")
		if got.code != exitDone {
			t.Errorf("%s: the configuration is refused: %s", name, got.stderr)
		}
		checkAddresses(t, name, s)
		checkCommand(t, name, s)
	}
}

// substituted is what compose makes of ${NAME:-default} when NAME is not set.
func substituted(text string) string {
	return regexp.MustCompile(`\$\{\w+:-([^}]*)\}`).ReplaceAllString(text, "$1")
}

func checkAddresses(t *testing.T, name string, s composeService) {
	t.Helper()
	for key, text := range s.Environment {
		if strings.HasSuffix(key, "_ADDR") || strings.HasSuffix(key, "_FILE") {
			continue
		}
		host := substituted(text)
		if u, err := url.Parse(host); err == nil && u.Host != "" {
			host = u.Host
		}
		if server, port, err := net.SplitHostPort(host); err == nil && !slices.Contains(ports[server], port) {
			t.Errorf("%s: %s is %s, and no service listens there", name, key, text)
		}
	}
	for _, published := range s.Ports {
		inside := published[strings.LastIndex(published, ":")+1:]
		if s.Environment["SECKILL_HTTP_ADDR"] != "0.0.0.0:"+inside && s.Environment["SECKILL_ADMIN_ADDR"] != "0.0.0.0:"+inside {
			t.Errorf("%s: port %s is published, and nothing of ours listens there", name, published)
		}
		if s.Environment["SECKILL_ADMIN_ADDR"] == "0.0.0.0:"+inside && !strings.HasPrefix(published, "127.0.0.1:") {
			t.Errorf("%s: the admin address is published to everybody: %s", name, published)
		}
	}
}

func checkCommand(t *testing.T, name string, s composeService) {
	t.Helper()
	cmd, _, err := newProgram(nil).rootCommand().Find(s.Command)
	if err != nil || cmd.Parent() == nil {
		t.Errorf("%s: seckill %v: %v", name, s.Command, err)
		return
	}
	if err := cmd.ParseFlags(s.Command[1:]); err != nil {
		t.Errorf("%s: seckill %v: %v", name, s.Command, err)
	}
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s: read_only %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
	}
	if s.Build.Context != ".." || s.Build.Dockerfile != "deploy/Dockerfile" {
		t.Errorf("%s is built from %+v", name, s.Build)
	}
}

// What a service names is declared, and what it waits for can come.
func TestComposeIsWhole(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File != "./secrets/"+secret {
				t.Errorf("%s: secret %s is not declared as a file of ./secrets", name, secret)
			}
		}
		for _, mount := range s.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			_, declared := c.Volumes[source]
			if _, err := os.Stat(filepath.Join(deployDir, source)); !declared && err != nil {
				t.Errorf("%s: volume %s is neither declared nor a file", name, source)
			}
		}
		for other, wait := range s.DependsOn {
			target, ok := c.Services[other]
			if !ok || wait.Condition == "service_healthy" && len(target.Healthcheck.Test) < 2 {
				t.Errorf("%s waits for %s to be %s, which it cannot be", name, other, wait.Condition)
			}
		}
	}
}
