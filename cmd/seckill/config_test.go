package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// read is readConfig with an environment only.
func read(environ ...string) (Config, error) {
	return readConfig(sources{environ: func() []string { return environ }})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if c.LockBackend != "etcd" || c.LockTTL != 10*time.Second || c.Partitions != 16 || c.LogMaxBytes != 8<<30 ||
		c.LogMaxAge != 168*time.Hour || c.LogAckWait != 15*time.Second || !c.Migrate ||
		!slices.Equal(c.Roles, []string{"api", "worker"}) || len(c.AuthTrustedProxies) != 2 ||
		!slices.Equal(c.RedisURLs, []string{"redis://127.0.0.1:6379"}) {
		t.Errorf("defaults: %+v", c)
	}
}

// Flag over environment over file over default, for each pair.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := write(t, "lock:\n  ttl: 3s\nnamespace: from_file\nhttp.addr: 127.0.0.1:1\npartitions: 4\n")
	environ := []string{"SECKILL_CONFIG=" + file, "SECKILL_LOCK_TTL=4s", "SECKILL_NAMESPACE=from_env", "SECKILL_PARTITIONS=5"}
	got := printed(t, environ, "--lock-ttl=5s", "--migrate=false", "--partitions", "6")
	for key, want := range map[string]printedSetting{
		"lock.ttl":     {Value: "5s", Origin: "flag --lock-ttl"},
		"partitions":   {Value: "6", Origin: "flag --partitions"},
		"migrate":      {Value: "false", Origin: "flag --migrate"},
		"namespace":    {Value: "from_env", Origin: "env SECKILL_NAMESPACE"},
		"http.addr":    {Value: "127.0.0.1:1", Origin: "file " + file + ":4"},
		"lock.backend": {Value: "etcd", Origin: "default"},
	} {
		if got[key].Value != want.Value || got[key].Origin != want.Origin {
			t.Errorf("%s = %s (%s), want %s (%s)", key, got[key].Value, got[key].Origin, want.Value, want.Origin)
		}
	}
}

// --config beats SECKILL_CONFIG as any flag does.
func TestConfigFlagBeatsVariable(t *testing.T) {
	t.Parallel()
	file := write(t, "namespace: chosen\n")
	got := printed(t, []string{"SECKILL_CONFIG=/does/not/exist"}, "--config", file)
	if got["namespace"].Value != "chosen" {
		t.Errorf("namespace %+v", got["namespace"])
	}
}

func printed(t *testing.T, environ []string, args ...string) map[string]printedSetting {
	t.Helper()
	got := runWith(t, environ, append([]string{"config", "print", "--origin", "--output=json"}, args...)...)
	if got.code != exitDone {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	var answer struct{ Settings []printedSetting }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatal(err)
	}
	byKey := map[string]printedSetting{}
	for _, line := range answer.Settings {
		byKey[line.Key] = line
	}
	return byKey
}

// Every setting is taken from each of the three places, under its three names.
func TestEverySettingFromEverySource(t *testing.T) {
	t.Parallel()
	other := map[string]string{
		"LOCK_BACKEND": "redis", "MIGRATE": "false", "ROLES": "worker", "LOG_REPLICAS": "3", "LOG_MAX_BYTES": "1GiB",
		"REDIS_URL": "redis://a:1,redis://b:2", "NATS_URL": "nats://a:1", "NATS_MONITOR_URL": "http://a:8222",
		"POSTGRES_URL": "postgres://a/b", "ETCD_ENDPOINTS": "a:2379,http://b:2379", "NAMESPACE": "other", "ADMIN_TOKEN": "t",
		"HTTP_ADDR": ":0", "ADMIN_ADDR": ":0", "AUTH_MODE": "jwt", "AUTH_TRUSTED_PROXIES": "10.0.0.0/8", "AUTH_JWT_SECRET": "0123",
		"AUTH_JWT_ISSUER": "i", "AUTH_JWT_AUDIENCE": "a", "PARTITIONS": "7", "QUEUE_LIMIT": "7", "BACKLOG_LIMIT": "7",
		"ADMIN_TOKENS": "ann:t,u", "ADMIN_READ_TOKENS": "ann:t,u", "AUTH_JWT_JWKS": "https://a/keys", "CORS_ORIGINS": "https://a", "EVENTS_MAX_BYTES": "1GiB",
		"HTTP_IN_FLIGHT": "7", "LIMIT_BUYER": "7/m", "LIMIT_ADDRESS": "7/s", "LIMIT_BUYER_BURST": "7", "LIMIT_ADDRESS_BURST": "7", "BREAKER_PERCENT": "7", "LIMIT_CPU": "7", "SETTLE_RATE": "7/s",
		"TICKET_SECRETS": "0123456789abcdef", "DENY_LIST": "/a", "PAYMENT_SECRETS": "0123456789abcdef",
	}
	for _, s := range settings {
		text, given := other[s.name]
		if !given {
			text = "7s"
			if s.name == "LOG_MAX_AGE" || s.name == "EVENTS_MAX_AGE" {
				text = "0s"
			}
		}
		if pairedSettings[s.name] {
			continue // see TestPairs
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			file := write(t, s.key()+": "+text+"\n")
			nested := write(t, strings.Replace(s.key(), ".", ":\n  ", 1)+": "+text+"\n")
			for _, from := range []struct {
				origin  string
				environ []string
				args    []string
			}{
				{"env " + s.env(), []string{s.env() + "=" + text}, nil},
				{"file " + file + ":1", nil, []string{"--config", file}},
				{fmt.Sprintf("file %s:%d", nested, 1+strings.Count(s.key(), ".")), nil, []string{"--config", nested}},
				{"flag --" + s.flag(), nil, []string{"--" + s.flag() + "=" + text}},
			} {
				got := printed(t, from.environ, from.args...)[s.key()]
				if got.Origin != from.origin || got.Value != s.shown(text) {
					t.Errorf("got %s (%s), want %s (%s)", got.Value, got.Origin, s.shown(text), from.origin)
				}
			}
		})
	}
}

// pairedSettings are refused alone.
var pairedSettings = map[string]bool{
	"HTTP_TLS_CERT": true, "HTTP_TLS_KEY": true, "ADMIN_TLS_CERT": true, "ADMIN_TLS_KEY": true,
	"TICKET_ACTIVITIES": true, "STORES_TLS_CERT": true, "STORES_TLS_KEY": true, "ETCD_USER": true, "ETCD_PASSWORD": true,
}

func TestPairs(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"HTTP_TLS_CERT", "HTTP_TLS_KEY"}, {"ADMIN_TLS_CERT", "ADMIN_TLS_KEY"}, {"STORES_TLS_CERT", "STORES_TLS_KEY"}, {"ETCD_USER", "ETCD_PASSWORD"},
	} {
		one, other := "SECKILL_"+pair[0]+"=a", "SECKILL_"+pair[1]+"=b"
		for _, alone := range []string{one, other} {
			if _, err := read(alone); err == nil || !strings.Contains(err.Error(), pair[0]) || !strings.Contains(err.Error(), pair[1]) {
				t.Errorf("%s alone: %v", alone, err)
			}
		}
		c, err := read(one, other)
		if err != nil {
			t.Error(err)
			continue
		}
		first, _ := settingNamed(pair[0])
		if c.values[first.key()].text != "a" {
			t.Errorf("%s: %q", one, c.values[first.key()].text)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		environ, yaml string
		want          []string // all of them in the one error
	}{
		// Unknown names, in each layer.
		{environ: "SECKILL_LOCK_TLL=3s", want: []string{"SECKILL_LOCK_TLL", "environment", "SECKILL_LOCK_TTL"}},
		{environ: "SECKILL_HELLO=1", want: []string{"SECKILL_HELLO", "config print"}},
		{environ: "SECKILL_=1", want: []string{"SECKILL_ (environment)"}},
		{environ: "SECKILL_NAMESPACE_FILE=/dev/null", want: []string{"SECKILL_NAMESPACE_FILE"}},
		{yaml: "lock:\n  tll: 3s", want: []string{"lock.tll", ":2", "lock.ttl"}},
		{yaml: "lokc: {ttl: 3s}", want: []string{"lokc", ":1", "lock"}},
		{yaml: "namespace: {a: b}", want: []string{"namespace", "must be"}},
		{yaml: "namespace.a: b", want: []string{"namespace.a", "is not a setting"}},
		{yaml: "LOCK.TTL: 3s", want: []string{"LOCK.TTL"}},
		{yaml: "redis: redis://h:1", want: []string{"redis (", "redis.url"}},
		// Shapes.
		{yaml: "namespace: a\nnamespace: b", want: []string{"namespace is given twice", ":1", ":2"}},
		{yaml: "lock: {ttl: 3s}\nlock.ttl: 4s", want: []string{"lock.ttl is given twice"}},
		{yaml: "- a", want: []string{"does not hold a mapping"}},
		{yaml: "hello", want: []string{"does not hold a mapping"}},
		{yaml: "&a\n? [x]\n: *a", want: []string{"key without a name"}},
		{yaml: "a: b\n---\nc: d", want: []string{"more than one YAML document"}},
		{yaml: "a: [", want: []string{"is not correct YAML", "line"}},
		// Ranges.
		{environ: "SECKILL_LOCK_BACKEND=zookeeper", want: []string{"lock.backend", `"zookeeper"`, "env SECKILL_LOCK_BACKEND", "etcd or redis"}},
		{environ: "SECKILL_LOCK_TTL=1999ms", want: []string{"lock.ttl", "2s"}},
		{environ: "SECKILL_LOCK_TTL=10", want: []string{"lock.ttl", "from 2s to 10m"}},
		{yaml: "lock.ttl: 10", want: []string{"lock.ttl", "file ", "from 2s to 10m"}},
		{environ: "SECKILL_REDIS_URL=", want: []string{"redis.url"}},
		{environ: "SECKILL_REDIS_URL=127.0.0.1:6379", want: []string{"redis.url", "redis://"}},
		{environ: "SECKILL_REDIS_URL=redis://a:1,", want: []string{"redis.url"}},
		{environ: "SECKILL_NATS_URL=http://a:1", want: []string{"nats.url"}},
		{environ: "SECKILL_NATS_MONITOR_URL=a:8222", want: []string{"nats.monitor_url"}},
		{environ: "SECKILL_POSTGRES_URL=mysql://a/b?c=d", want: []string{"postgres.url"}},
		{environ: "SECKILL_POSTGRES_URL=localhost", want: []string{"postgres.url"}},
		{environ: "SECKILL_ETCD_ENDPOINTS=a", want: []string{"etcd.endpoints"}},
		{environ: "SECKILL_NAMESPACE=Seckill", want: []string{"namespace", "[a-z][a-z0-9_]{0,30}"}},
		{environ: "SECKILL_NAMESPACE=a" + strings.Repeat("b", 31), want: []string{"namespace"}},
		{environ: "SECKILL_NAMESPACE=a\n", want: []string{"namespace"}},
		{environ: "SECKILL_NAMESPACE=pg_sale", want: []string{"namespace", "pg_"}},
		{environ: "SECKILL_ADMIN_READ_TOKENS=ann:", want: []string{"admin.read_tokens"}},
		{environ: "SECKILL_ADMIN_TOKENS=an n:t", want: []string{"admin.tokens", "name:token"}},
		{environ: "SECKILL_ADMIN_TOKENS=a,,b", want: []string{"admin.tokens"}},
		{yaml: "admin: {token: t, read_tokens: 'bob:t'}", want: []string{"admin.read_tokens", "admin.token"}},
		{environ: "SECKILL_AUTH_JWT_JWKS=ftp://a/keys", want: []string{"auth.jwt_jwks"}},
		{environ: "SECKILL_LIMIT_BUYER=20", want: []string{"limit.buyer", "20/s"}},
		{environ: "SECKILL_LIMIT_BUYER=0/s", want: []string{"limit.buyer"}},
		{environ: "SECKILL_LIMIT_ADDRESS=1/d", want: []string{"limit.address"}},
		{environ: "SECKILL_TICKET_ACTIVITIES=spring", want: []string{"ticket.activities", "ticket.secrets"}},
		{environ: "SECKILL_CORS_ORIGINS=https://a/", want: []string{"cors.origins"}},
		{environ: "SECKILL_CORS_ORIGINS=shop.example", want: []string{"cors.origins", "https://shop.example"}},
		{environ: "SECKILL_HTTP_ADDR=8080", want: []string{"http.addr"}},
		{environ: "SECKILL_HTTP_ADDR=:65536", want: []string{"http.addr"}},
		{environ: "SECKILL_HTTP_TIMEOUT=11s", want: []string{"http.timeout", "10s"}},
		{environ: "SECKILL_START_TIMEOUT=-1s", want: []string{"start.timeout"}},
		{environ: "SECKILL_MIGRATE=maybe", want: []string{"migrate", "true or false"}},
		{environ: "SECKILL_AUTH_MODE=none", want: []string{"auth.mode", "jwt or header"}},
		{environ: "SECKILL_AUTH_TRUSTED_PROXIES=10.0.0.1", want: []string{"auth.trusted_proxies", "10.0.0.0/8"}},
		{environ: "SECKILL_AUTH_JWT_LEEWAY=1h", want: []string{"auth.jwt_leeway"}},
		{environ: "SECKILL_ROLES=", want: []string{"roles", "api,worker"}},
		{environ: "SECKILL_ROLES=api,cook", want: []string{"roles"}},
		{environ: "SECKILL_ROLES=api,api", want: []string{"roles"}},
		{yaml: "roles: [api, [worker]]", want: []string{"roles"}},
		{environ: "SECKILL_PARTITIONS=0", want: []string{"partitions", "1 to 256"}},
		{environ: "SECKILL_PARTITIONS=257", want: []string{"partitions"}},
		{environ: "SECKILL_QUEUE_LIMIT=0", want: []string{"queue.limit"}},
		{environ: "SECKILL_BACKLOG_LIMIT=many", want: []string{"backlog.limit"}},
		{environ: "SECKILL_LOG_REPLICAS=2", want: []string{"log.replicas", "1, 3 or 5"}},
		{environ: "SECKILL_LOG_MAX_BYTES=8 bananas", want: []string{"log.max_bytes", "8GiB"}},
		{environ: "SECKILL_LOG_MAX_BYTES=1023KiB", want: []string{"log.max_bytes"}},
		{environ: "SECKILL_LOG_MAX_BYTES=99999999EiB", want: []string{"log.max_bytes"}},
		{environ: "SECKILL_LOG_MAX_AGE=59m", want: []string{"log.max_age", "0s"}},
		{environ: "SECKILL_LOG_MAX_AGE=", want: []string{"log.max_age"}},
		{environ: "SECKILL_LOG_ACK_WAIT=0s", want: []string{"log.ack_wait"}},
		// Relations and files.
		{environ: "SECKILL_HTTP_ADDR=127.0.0.1:8081", want: []string{"http.addr", "admin.addr", "env SECKILL_HTTP_ADDR", "default"}},
		{environ: "SECKILL_CONFIG=/does/not/exist", want: []string{"/does/not/exist"}},
		{environ: "SECKILL_ADMIN_TOKEN_FILE=/does/not/exist", want: []string{"SECKILL_ADMIN_TOKEN_FILE", "/does/not/exist"}},
		{environ: "SECKILL_ADMIN_TOKEN_FILE=", want: []string{"SECKILL_ADMIN_TOKEN_FILE"}},
		{environ: "SECKILL_ADMIN_TOKEN_FILE=/dev/null", want: []string{"SECKILL_ADMIN_TOKEN_FILE", "is empty"}},
		{environ: "SECKILL_ADMIN_TOKEN_FILE=/dev/zero", want: []string{"SECKILL_ADMIN_TOKEN_FILE", "larger"}},
	} {
		t.Run(tc.environ+tc.yaml, func(t *testing.T) {
			t.Parallel()
			args := []string{"config", "print"}
			if tc.yaml != "" {
				args = append(args, "--config", write(t, tc.yaml))
			}
			got := runWith(t, []string{tc.environ}, args...)
			if got.code != exitUsage || got.stdout != "" {
				t.Fatalf("exit %d, stdout %q", got.code, got.stdout)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q lacks %q", got.stderr, want)
				}
			}
		})
	}
}

// What looks odd and is right.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, environ := range []string{
		"SECKILL_LAB_ANYTHING=1", "SECKILL_LOCK_TOKEN=7", "SECKILL_CONFIG=", "SECKILLED=1", "SECKILL_AUTH_MODE=",
		"SECKILL_LOG_MAX_AGE=0s", "SECKILL_LOG_MAX_AGE=0", "SECKILL_ROLES= worker , api ", "SECKILL_HTTP_ADDR=[::1]:0",
		"SECKILL_NATS_URL=nats://a:1,b:2", "SECKILL_POSTGRES_URL=host=/run/pg user=a password='b c://d'",
		"SECKILL_POSTGRES_URL=postgres://a:b@h1:1,h2:2/c?sslmode=disable", "SECKILL_AUTH_TRUSTED_PROXIES=",
		"SECKILL_ETCD_ENDPOINTS=",
	} {
		t.Run(environ, func(t *testing.T) {
			t.Parallel()
			if _, err := read(environ); err != nil {
				t.Error(err)
			}
		})
	}
	for _, content := range []string{
		"", "# nothing", "redis:\n# url: x\nlock:\n", "roles: [worker]", "roles:\n- api\n- worker", "redis:\n  url: [redis://a:1, redis://b:2]",
		"admin.token: 0123456789", "auth: {jwt_secret: 1e3, mode: jwt}",
	} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			if _, err := readConfig(sources{file: write(t, content)}); err != nil {
				t.Error(err)
			}
		})
	}
}

// YAML must not make a number of a token.
func TestFileKeepsText(t *testing.T) {
	t.Parallel()
	c, err := readConfig(sources{file: write(t, "admin.token: 0123\nauth.jwt_secret: 1e3\nnamespace: \"on\"\nroles: [worker]\n")})
	if err != nil {
		t.Fatal(err)
	}
	if c.AdminToken != "0123" || c.AuthJWTSecret != "1e3" || c.Namespace != "on" || !slices.Equal(c.Roles, []string{"worker"}) {
		t.Errorf("%q %q %q %q", c.AdminToken, c.AuthJWTSecret, c.Namespace, c.Roles)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"hush": "hush", "hush\n": "hush", "hush\r\n": "hush", "hu sh\n\n": "hu sh\n"} {
		path := write(t, content)
		c, err := read("SECKILL_AUTH_JWT_SECRET_FILE=" + path)
		if err != nil || c.AuthJWTSecret != want {
			t.Errorf("%q read as %q, %v", content, c.AuthJWTSecret, err)
		}
	}
	path := write(t, "postgres://u:hush@h/d\n")
	got := printed(t, []string{"SECKILL_POSTGRES_URL_FILE=" + path})["postgres.url"]
	if got.Value != "postgres://u:xxxxx@h/d" || got.Origin != "env SECKILL_POSTGRES_URL_FILE" {
		t.Errorf("%+v", got)
	}
	for _, environ := range [][]string{
		{"SECKILL_POSTGRES_URL_FILE=" + path, "SECKILL_POSTGRES_URL=postgres://h/d"},
		{"SECKILL_POSTGRES_URL=postgres://h/d", "SECKILL_POSTGRES_URL_FILE=" + path},
	} {
		if _, err := read(environ...); err == nil || !strings.Contains(err.Error(), "postgres.url is given twice") {
			t.Errorf("both given: %v", err)
		}
	}
}

// Whatever is done with a secret, right or wrong, it is not shown.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	const hush = "hush"
	values := map[string][]string{
		"ADMIN_TOKEN":       {hush, hush + " \n", "ä" + hush},
		"ADMIN_TOKENS":      {hush, "ann:" + hush, "an n:" + hush, "ann:" + hush + ",", hush + " \n"},
		"ADMIN_READ_TOKENS": {hush, "ann:" + hush, ":" + hush, "ä" + hush},
		"TICKET_SECRETS":    {"hush-hush-hush-hush", hush},
		"PAYMENT_SECRETS":   {"hush-hush-hush-hush", hush},
		"ETCD_PASSWORD":     {hush, "'" + hush},
		"AUTH_JWT_JWKS":     {"https://u:hush@h/keys", "https://h/keys?token=hush", "ftp://u:hush@h/", "https://u:12/hush@h/"},
		"AUTH_JWT_SECRET":   {hush, hush + "\n", "*" + hush, "!" + hush, "{" + hush, "'" + hush},
		"POSTGRES_URL": {
			"postgres://u:hush@h/d", "postgres://u:1/hush@h/d", "postgres://u:1?hush@h/d", "postgres://u:1#hush@h/d", "postgres://u:@hush@h/d",
			"postgres://u@h/d?password=hush&x=1", "postgres://u@h/d?sslpassword=hush", "host=a password=hush", "host=a password = 'a hush'",
			`host=a password='a\' hush'`, "host=a password=a://hush", "host=a password='hush", "mysql://u:hush@h/d", "hush", "postgres://u:%hush@h",
			`host=a password=a\ hush`,
		},
		"REDIS_URL": {
			"redis://:hush@h:1", "redis://u:hush@h:1,redis://u:hush@h:2", "redis://:12/hush@h:1", "redis://:12#hush@h:1", "redis://u:12,hush@h:1",
			"redis://h:1?password=hush", "hush", "redis://u:hush", "redis://u:%hush@h:1", "redis://u:1?hush@h:1",
		},
		"NATS_URL":         {"nats://hush@h:1", "nats://u:hush@h:1", "u:hush@h:1", "nats://u:12,hush@h:1", "hush@h:1", "nats://u:hush"},
		"NATS_MONITOR_URL": {"http://u:hush@h:1", "http://h:1?token=hush", "http://u:12/hush@h:1"},
		"ETCD_ENDPOINTS":   {"http://u:hush@h:1", "u:hush@h:1", "http://u:12/hush@h:1"},
	}
	for name, texts := range values {
		s, _ := settingNamed(name)
		for i, text := range texts {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				t.Parallel()
				runs := []ran{
					runWith(t, []string{s.env() + "=" + text}, "config", "print", "--origin"),
					runWith(t, []string{s.env() + "=" + text}, "config", "print", "-o", "json"),
					runWith(t, nil, "config", "print", "--"+s.flag(), text),
					runWith(t, nil, "config", "print", "--"+s.flag()+"="+text, "--lock-ttl=1s"),
					runWith(t, nil, "config", "print", "--config", write(t, s.key()+": "+text+"\n")),
					runWith(t, []string{s.env() + "_FILE=" + write(t, text)}, "config", "print"),
					runWith(t, []string{s.env() + "_FILE=" + write(t, text), s.env() + "=" + text}, "config", "print"),
				}
				for i, got := range runs {
					if strings.Contains(got.stdout+got.stderr, hush) {
						t.Errorf("run %d shows it: %s%s", i, got.stdout, got.stderr)
					}
				}
				if c, err := read(s.env() + "=" + text); err == nil {
					var logged strings.Builder
					slog.New(slog.NewJSONHandler(&logged, nil)).Info("configuration", "config", c)
					if all := fmt.Sprintf("%v %+v %#v %s", c, c, c, logged.String()); strings.Contains(all, hush) {
						t.Errorf("printing a Config shows it: %s", all)
					}
				}
			})
		}
	}
}

func TestMaskKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"POSTGRES_URL", "postgres://u:p@h1:1,h2:2/d?sslmode=disable", "postgres://u:xxxxx@h1:1,h2:2/d?sslmode=disable"},
		{"POSTGRES_URL", "postgres://u@h/d", "postgres://u@h/d"},
		{"POSTGRES_URL", "host=h password=p user=u", "host=h password=xxxxx user=u"},
		{"REDIS_URL", "redis://:p@h:1/2,rediss://u:p@h:2", "redis://:xxxxx@h:1/2,rediss://u:xxxxx@h:2"},
		{"NATS_URL", "nats://token@h:1,nats://h:2", "nats://xxxxx@h:1,nats://h:2"},
		{"NATS_URL", "nats://u:12,p@h:1", "xxxxx"}, // a comma in the password
		{"ETCD_ENDPOINTS", "h:1,http://h:2", "h:1,http://h:2"},
		{"ADMIN_TOKEN", "", ""},
	} {
		s, _ := settingNamed(tc[0])
		if got := s.shown(tc[1]); got != tc[2] {
			t.Errorf("%s shown as %s, want %s", tc[1], got, tc[2])
		}
	}
}

func TestProblemsAreToldTogether(t *testing.T) {
	t.Parallel()
	got := runWith(t, []string{"SECKILL_LOCK_TTL=1s", "SECKILL_HELLO=1"}, "config", "print",
		"--config", write(t, "a: b\n"), "--partitions=0")
	for _, want := range []string{"lock.ttl", "SECKILL_HELLO", "a (file", "partitions"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q lacks %q", got.stderr, want)
		}
	}
	if lines := strings.Count(got.stderr, "\n"); lines != 4 {
		t.Errorf("%d lines for 4 problems: %s", lines, got.stderr)
	}
}

func TestCheckServe(t *testing.T) {
	t.Parallel()
	stores := []string{"SECKILL_POSTGRES_URL=postgres://h/d", "SECKILL_ETCD_ENDPOINTS=h:2379"}
	for _, tc := range []struct {
		name    string
		environ []string
		want    string // empty: may serve
	}{
		{"no identity", stores, "auth.mode"},
		{"header", append(stores, "SECKILL_AUTH_MODE=header"), ""},
		{"header, nobody trusted", append(stores, "SECKILL_AUTH_MODE=header", "SECKILL_AUTH_TRUSTED_PROXIES="), "auth.trusted_proxies"},
		{"jwt without secret", append(stores, "SECKILL_AUTH_MODE=jwt"), "auth.jwt_secret"},
		{"jwt with a key set", append(stores, "SECKILL_AUTH_MODE=jwt", "SECKILL_AUTH_JWT_JWKS=/keys"), ""},
		{"jwt", append(stores, "SECKILL_AUTH_MODE=jwt", "SECKILL_AUTH_JWT_SECRET=s"), ""},
		{"worker needs no identity", append(stores, "SECKILL_ROLES=worker"), ""},
		{"no ledger", []string{"SECKILL_AUTH_MODE=header", "SECKILL_LOCK_BACKEND=redis"}, "postgres.url"},
		{"no lock store", []string{stores[0], "SECKILL_AUTH_MODE=header"}, "etcd.endpoints"},
		{"redis locks", []string{stores[0], "SECKILL_AUTH_MODE=header", "SECKILL_LOCK_BACKEND=redis"}, ""},
		{"api holds no partition", []string{stores[0], "SECKILL_AUTH_MODE=header", "SECKILL_ROLES=api"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := read(tc.environ...)
			if err != nil {
				t.Fatal(err)
			}
			err = c.checkServe()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("checkServe: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestConfigPrintGolden(t *testing.T) {
	t.Parallel()
	environ := []string{
		"SECKILL_POSTGRES_URL=postgres://seckill:hush@db/seckill", "SECKILL_ADMIN_TOKEN=hush", "SECKILL_AUTH_MODE=jwt",
		"SECKILL_AUTH_JWT_SECRET=hush", "SECKILL_AUTH_JWT_ISSUER=\x1b[31mred", "NO_COLOR=1",
	}
	got := runWith(t, environ, "config", "print", "--origin", "--lock-backend=redis")
	if got.code != exitDone {
		t.Fatal(got.stderr)
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Error("an escape sequence reached the terminal")
	}
	golden(t, "config_print.txt", got.stdout)
}

// Names and texts of the list itself.
func TestSettingsAreWellFormed(t *testing.T) {
	t.Parallel()
	doc := regexp.MustCompile(`\A[A-Za-z][^\n` + "`" + `]{10,110}[^.\n]\z`)
	seen := map[string]bool{}
	for _, s := range settings {
		if seen[s.key()] || seen[s.flag()] || !doc.MatchString(s.doc) || s.kind.allowed == "" {
			t.Errorf("%s: name taken, or doc or kind incomplete", s.name)
		}
		seen[s.key()], seen[s.flag()] = true, true
		if !s.kind.set(new(Config), s.def) {
			t.Errorf("%s: its own default %q is not allowed", s.name, s.def)
		}
	}
	for _, name := range storeSettings {
		if _, known := settingNamed(name); !known {
			t.Errorf("storeSettings names %s, which is none", name)
		}
	}
}

const examplePath = "../../deploy/seckill.example.yaml"

// The example file names every setting exactly once, with its default and what
// it takes. It is generated from the list; -update writes it.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	want := exampleFile()
	if *update {
		if err := os.WriteFile(examplePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != want {
		t.Error("the example file is not what the settings say: run go test ./cmd/seckill -run TestExampleFile -update")
	}
	var plain map[string]any // any other reader of YAML refuses a key that comes twice
	if err := yaml.Unmarshal(content, &plain); err != nil {
		t.Error(err)
	}
	c, err := readConfig(sources{file: examplePath})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if v := c.values[s.key()]; v.text != s.def || !strings.HasPrefix(v.origin, "file ") {
			t.Errorf("%s = %q (%s), want the default %q from the file", s.key(), v.text, v.origin, s.def)
		}
	}
	defaults, err := read()
	if err != nil {
		t.Fatal(err)
	}
	c.values, defaults.values = nil, nil
	if !reflect.DeepEqual(c, defaults) {
		t.Errorf("the example changes something:\n%+v\n%+v", c, defaults)
	}
}

func exampleFile() string {
	var b strings.Builder
	b.WriteString(`# Every setting of seckill with its default, a comment on what it does and one on
# what it takes. Use it with --config or SECKILL_CONFIG; leave out what you do
# not change.
#
# Flags go over the environment, the environment goes over this file. lock.ttl is
# --lock-ttl on the command line and SECKILL_LOCK_TTL in the environment; passwords,
# tokens and URLs can also be read from a file, as in SECKILL_ADMIN_TOKEN_FILE.
# seckill config print --origin shows what is in force, and where it came from.
`)
	group := ""
	for _, s := range settings {
		first, name, nested := strings.Cut(s.key(), ".")
		indent := ""
		if nested {
			indent = "  "
		} else {
			name = first
		}
		if first != group {
			b.WriteString("\n")
			if nested {
				b.WriteString(first + ":\n")
			}
			group = first
		}
		def := s.def
		if def == "" {
			def = `""`
		}
		fmt.Fprintf(&b, "%[1]s# %[2]s\n%[1]s# takes: %[3]s\n%[1]s%[4]s: %[5]s\n", indent, s.doc, s.kind.allowed, name, def)
	}
	return b.String()
}
