package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Config is the whole configuration, checked. What each field means, its
// default and its range stand in the list of settings (settings.go), under the
// field's environment name. Printing a Config shows no secret; printing one of
// its URL, token or secret fields does.
type Config struct {
	LockBackend string        // etcd or redis
	LockTTL     time.Duration // at least 2s

	RedisURLs      []string // at least one; several: a cluster
	NATSURL        string   // comma-separated, each with its scheme, as nats.Connect takes it
	NATSMonitorURL string   // empty: not known
	PostgresURL    string   // URL or keyword=value pairs, as pgx takes it; empty: not given
	EtcdEndpoints  []string // empty: not given
	EtcdUser       string   // empty: no credentials
	EtcdPassword   string
	StoresTLSCA    string // path; empty: the system's authorities only
	StoresTLSCert  string // path, with StoresTLSKey; empty: no certificate is shown
	StoresTLSKey   string
	Namespace      string // [a-z][a-z0-9_]{0,30}, not pg_…

	HTTPAddr     string
	AdminAddr    string
	HTTPTimeout  time.Duration // at most the ten seconds of a drain
	StartTimeout time.Duration
	Migrate      bool

	HTTPTLSCert, HTTPTLSKey   string // paths; empty: no TLS
	AdminTLSCert, AdminTLSKey string

	AdminToken         string // empty, as the two lists: admin routes refuse
	AdminTokens        []adminToken
	AdminReadTokens    []adminToken
	AuthMode           string // jwt or header; empty: serving refuses to start
	AuthTrustedProxies []netip.Prefix
	AuthJWTSecret      string
	AuthJWTJWKS        string // path or URL
	AuthJWTIssuer      string // empty: any
	AuthJWTAudience    string // empty: any
	AuthJWTLeeway      time.Duration
	CORSOrigins        []string

	HTTPInFlight      int
	LimitBuyer        time.Duration // between two requests; 0: no limit
	LimitBuyerBurst   int
	LimitAddress      time.Duration
	LimitAddressBurst int
	LimitCPU          int    // percent; 0: no limit
	DenyList          string // path; empty: nobody is denied
	TicketSecrets     []string
	PaymentSecrets    []string
	TicketActivities  []string
	BreakerPercent    int // 0: never
	BreakerSlow       time.Duration

	Roles        []string      // api, worker or both
	Partitions   int           // 1 to 256
	QueueLimit   int           // requests per activity
	BacklogLimit int           // orders
	SettleEvery  time.Duration // between two orders of this process; 0: no limit

	LogReplicas int
	LogMaxBytes int64         // bytes
	LogMaxAge   time.Duration // 0: for ever
	LogAckWait  time.Duration

	EventsMaxBytes int64
	EventsMaxAge   time.Duration // 0: for ever

	values map[string]value // by YAML key, one for every setting
}

// value is the text of a setting and where it came from.
type value struct {
	text   string
	origin string // such as "env SECKILL_LOCK_TTL"
}

// loadConfig reads and checks the configuration of a command: its flags over
// the environment over the file of --config over the defaults. What is wrong
// comes as one error with a line for each problem, and the program ends with 2.
// Whether everything is there that the command needs is its own question: see
// need and checkServe.
func (p *program) loadConfig(cmd *cobra.Command) (Config, error) {
	return readConfig(sources{flags: cmd.Flags(), environ: p.environ, file: p.configPath})
}

// readConfig is loadConfig for any sources.
func readConfig(from sources) (Config, error) {
	values, problems := from.read()
	c := Config{values: values}
	for _, s := range settings {
		v := values[s.key()]
		if !s.kind.set(&c, v.text) {
			problems = append(problems, s.refuse(v))
		}
	}
	if len(problems) == 0 {
		problems = c.relations()
	}
	if len(problems) > 0 {
		return Config{}, wrongUsage(errors.Join(problems...))
	}
	return c, nil
}

// refuse says that a value is not allowed, where it came from and what is.
func (s setting) refuse(v value) error {
	what := s.key()
	if s.privacy == public {
		what = fmt.Sprintf("%s = %.80q", s.key(), v.text)
	}
	return fmt.Errorf("configuration: %s (%s): must be %s", what, v.origin, s.kind.allowed)
}

// relations checks what no setting can tell alone.
func (c Config) relations() []error {
	var problems []error
	if _, port, _ := net.SplitHostPort(c.HTTPAddr); c.HTTPAddr == c.AdminAddr && port != "0" {
		problems = append(problems, fmt.Errorf(
			"configuration: http.addr (%s) and admin.addr (%s) are both %s: the admin routes need an address of their own",
			c.origin("HTTP_ADDR"), c.origin("ADMIN_ADDR"), c.HTTPAddr))
	}
	for _, pair := range [][2]string{
		{"HTTP_TLS_CERT", "HTTP_TLS_KEY"},
		{"ADMIN_TLS_CERT", "ADMIN_TLS_KEY"},
		{"STORES_TLS_CERT", "STORES_TLS_KEY"},
		{"ETCD_USER", "ETCD_PASSWORD"},
	} {
		if c.given(pair[0]) != c.given(pair[1]) {
			problems = append(problems, fmt.Errorf("configuration: of %s and %s only one has a value: give both or none", pair[0], pair[1]))
		}
	}
	if len(c.TicketActivities) > 0 && len(c.TicketSecrets) == 0 {
		problems = append(problems, errors.New("configuration: ticket.activities has a value and ticket.secrets has none: nobody would be let in"))
	}
	return append(problems, c.sameTokenTwice()...)
}

// given says whether a setting (environment name without prefix) has a value.
func (c Config) given(name string) bool {
	s, _ := settingNamed(name)
	return c.values[s.key()].text != ""
}

// sameTokenTwice finds a token that would both read only and change things.
func (c Config) sameTokenTwice() []error {
	for _, reader := range c.AdminReadTokens {
		for _, one := range c.operators() {
			if one.token == reader.token && !one.readOnly {
				return []error{errors.New("configuration: a token of admin.read_tokens is also one of admin.token or admin.tokens: nobody could tell what it may do")}
			}
		}
	}
	return nil
}

// need is an error that names those of the settings (environment names without
// prefix) that have no value, and how to give one.
func (c Config) need(names ...string) error {
	var problems []error
	for _, name := range names {
		s, known := settingNamed(name)
		if !known {
			panic("no setting is called " + name)
		}
		if c.values[s.key()].text == "" {
			problems = append(problems, fmt.Errorf("configuration: %s is needed and has no value: %s", s.key(), s.places()))
		}
	}
	if len(problems) > 0 {
		return wrongUsage(errors.Join(problems...))
	}
	return nil
}

// checkServe is what serving needs beyond a correct configuration. Only the
// roles of this process count: a worker does not have to know who the buyers are.
func (c Config) checkServe() error {
	problems := []error{c.need("POSTGRES_URL")}
	if c.hasRole(roleWorker) && c.LockBackend == backendEtcd {
		problems = append(problems, c.need("ETCD_ENDPOINTS"))
	}
	if c.hasRole(roleAPI) {
		problems = append(problems, c.checkAuth())
	}
	if err := errors.Join(problems...); err != nil {
		return wrongUsage(err)
	}
	return nil
}

// checkAuth refuses to serve buyers whom nothing tells apart.
func (c Config) checkAuth() error {
	mode, _ := settingNamed("AUTH_MODE")
	switch {
	case c.AuthMode == "":
		return fmt.Errorf("configuration: auth.mode has no value, and serving buyers without knowing who they are is refused: %s to %s",
			mode.places(), alternatives(mode.kind.choices))
	case c.AuthMode == authJWT && c.AuthJWTSecret == "" && c.AuthJWTJWKS == "":
		return errors.New("configuration: auth.mode is jwt and neither auth.jwt_secret nor auth.jwt_jwks has a value: no token could be verified")
	case c.AuthMode == authJWT:
		return nil
	case len(c.AuthTrustedProxies) == 0:
		return fmt.Errorf("configuration: auth.trusted_proxies (%s) is empty and auth.mode (%s) is header: no buyer would be let in",
			c.origin("AUTH_TRUSTED_PROXIES"), c.origin("AUTH_MODE"))
	}
	return nil
}

// hasRole reports whether this process does the work of a role.
func (c Config) hasRole(role string) bool { return slices.Contains(c.Roles, role) }

// origin says where the value of a setting came from.
func (c Config) origin(name string) string {
	s, _ := settingNamed(name)
	return c.values[s.key()].origin
}

// String lists every setting with secrets masked.
func (c Config) String() string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = s.key() + "=" + s.shown(c.values[s.key()].text)
	}
	return strings.Join(parts, " ")
}

// GoString is String: even %#v shows no secret.
func (c Config) GoString() string { return c.String() }

// LogValue makes a Config safe to log.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
