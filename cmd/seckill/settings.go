package main

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// envPrefix begins the name of every environment variable that is ours.
const envPrefix = "SECKILL_"

// setting is one thing that can be configured. The list of them (settings)
// drives flags, environment names, YAML keys, defaults, `config print` and the
// example file, so that these cannot disagree.
type setting struct {
	name    string // environment name without prefix, such as LOCK_TTL
	def     string // default, as it would be written in the environment; empty: none
	doc     string // one line; also the flag's help and the comment in the example file
	privacy privacy
	kind    kind
}

// kind says which texts a setting takes.
type kind struct {
	word    string   // after the flag in the help
	allowed string   // completes "must be ..."
	choices []string // for shell completion; nil if there is no short list

	// set reads text into its field and reports whether it is allowed. It gives
	// no reason: allowed has it, and a library's reason may quote a secret.
	set func(c *Config, text string) bool
}

// privacy says what of a value may be shown. Everything but a public value can
// also be read from a file, by SECKILL_<name>_FILE.
type privacy int

const (
	public  privacy = iota
	address         // URLs: shown without passwords, never quoted in an error
	secret          // never shown
)

// key is the setting's name in the YAML file.
func (s setting) key() string { return strings.Replace(strings.ToLower(s.name), "_", ".", 1) }

// env is the name of the setting's environment variable.
func (s setting) env() string { return envPrefix + s.name }

// flag is the setting's flag, without the two dashes.
func (s setting) flag() string { return strings.ReplaceAll(strings.ToLower(s.name), "_", "-") }

// places says where a value can be given, for errors about a missing one.
func (s setting) places() string {
	return fmt.Sprintf("set --%s, %s, or %s in the configuration file", s.flag(), s.env(), s.key())
}

// settingNamed finds a setting by its environment name without prefix.
func settingNamed(name string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return settings[i], true
}

// settingAt finds a setting by its YAML key.
func settingAt(key string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key() == key })
	if i < 0 {
		return setting{}, false
	}
	return settings[i], true
}

const (
	backendEtcd  = "etcd"
	backendRedis = "redis"

	authJWT    = "jwt"
	authHeader = "header"

	roleAPI    = "api"
	roleWorker = "worker"
)

// duplicateWindow is for how long the order log recognises a resent batch. A
// stream cannot keep its messages for less than that, so no acknowledgement may
// be awaited for longer either.
const duplicateWindow = 2 * time.Minute

// drainTime is how long serving may take to stop. A request that may wait
// longer could not be answered before the end.
const drainTime = 10 * time.Second

var settings = []setting{
	{
		name: "LOCK_BACKEND", def: backendEtcd, kind: choice(func(c *Config) *string { return &c.LockBackend }, backendEtcd, backendRedis),
		doc: "store of the leases; recorded in the ledger, change it with seckill lock switch",
	},
	{
		name: "LOCK_TTL", def: "10s", kind: duration(func(c *Config) *time.Duration { return &c.LockTTL }, 2*time.Second, 10*time.Minute),
		doc: "how long a lease outlives a dead holder",
	},
	{
		name: "REDIS_URL", def: "redis://127.0.0.1:6379", privacy: address, kind: redisURLs(),
		doc: "Redis of the gates; several, separated by commas, are a cluster",
	},
	{
		name: "NATS_URL", def: "nats://127.0.0.1:4222", privacy: address, kind: natsURLs(),
		doc: "NATS servers of the order log, separated by commas",
	},
	{
		name: "NATS_MONITOR_URL", privacy: address, kind: webURL(func(c *Config) *string { return &c.NATSMonitorURL }),
		doc: "monitoring address of a NATS server; lets seckill doctor see the sync setting",
	},
	{
		name: "POSTGRES_URL", privacy: address, kind: postgresURL(),
		doc: "Postgres of the ledger",
	},
	{
		name: "ETCD_ENDPOINTS", privacy: address, kind: etcdEndpoints(),
		doc: "etcd members, separated by commas; needed if lock.backend is etcd",
	},
	{
		name: "ETCD_USER", kind: text(func(c *Config) *string { return &c.EtcdUser }),
		doc: "user of etcd; without one, etcd is asked without credentials",
	},
	{
		name: "ETCD_PASSWORD", privacy: secret, kind: text(func(c *Config) *string { return &c.EtcdPassword }),
		doc: "password of etcd.user",
	},
	{
		name: "STORES_TLS_CA", kind: text(func(c *Config) *string { return &c.StoresTLSCA }),
		doc: "PEM file of authorities believed besides the system's, by all stores reached over TLS and auth.jwt_jwks",
	},
	{
		name: "STORES_TLS_CERT", kind: text(func(c *Config) *string { return &c.StoresTLSCert }),
		doc: "PEM file of the certificate shown to stores that ask for one",
	},
	{
		name: "STORES_TLS_KEY", kind: text(func(c *Config) *string { return &c.StoresTLSKey }),
		doc: "PEM file of the key of stores.tls_cert",
	},
	{
		name: "NAMESPACE", def: "seckill", kind: namespace(),
		doc: "prefix of everything in the stores; two installations with different ones never meet",
	},
	{
		name: "HTTP_ADDR", def: "127.0.0.1:8080", kind: listenAddr(func(c *Config) *string { return &c.HTTPAddr }),
		doc: "where buyers are served; port 0 takes a free one",
	},
	{
		name: "HTTP_TIMEOUT", def: "3s", kind: duration(func(c *Config) *time.Duration { return &c.HTTPTimeout }, 100*time.Millisecond, drainTime),
		doc: "how long a buyer's request may take before the answer is outcome-unknown or overloaded",
	},
	{
		name: "HTTP_IN_FLIGHT", def: "20000", kind: integer(func(c *Config) *int { return &c.HTTPInFlight }, 1, math.MaxInt32),
		doc: "requests for an order under way at once in this process; past it the answer is overloaded",
	},
	{
		name: "HTTP_TLS_CERT", kind: text(func(c *Config) *string { return &c.HTTPTLSCert }),
		doc: "PEM file of the certificate chain of http.addr, read again when it changes; without one, no TLS",
	},
	{
		name: "HTTP_TLS_KEY", kind: text(func(c *Config) *string { return &c.HTTPTLSKey }),
		doc: "PEM file of the key of http.tls_cert",
	},
	{
		name: "ADMIN_ADDR", def: "127.0.0.1:8081", kind: listenAddr(func(c *Config) *string { return &c.AdminAddr }),
		doc: "where operators, probes and metrics are served; port 0 takes a free one",
	},
	{
		name: "ADMIN_TOKEN", privacy: secret, kind: token(func(c *Config) *string { return &c.AdminToken }),
		doc: "bearer token of the admin routes; without any token they refuse",
	},
	{
		name: "ADMIN_TOKENS", privacy: secret, kind: tokens(func(c *Config) *[]adminToken { return &c.AdminTokens }),
		doc: "more tokens that may do what admin.token may; names appear in the activity log",
	},
	{
		name: "ADMIN_READ_TOKENS", privacy: secret, kind: tokens(func(c *Config) *[]adminToken { return &c.AdminReadTokens }),
		doc: "tokens that may read the admin routes and change nothing",
	},
	{
		name: "ADMIN_TLS_CERT", kind: text(func(c *Config) *string { return &c.AdminTLSCert }),
		doc: "PEM file of the certificate chain of admin.addr, read again when it changes; without one, no TLS",
	},
	{
		name: "ADMIN_TLS_KEY", kind: text(func(c *Config) *string { return &c.AdminTLSKey }),
		doc: "PEM file of the key of admin.tls_cert",
	},
	{
		name: "START_TIMEOUT", def: "30s", kind: duration(func(c *Config) *time.Duration { return &c.StartTimeout }, time.Second, 10*time.Minute),
		doc: "how long starting waits for the stores to answer",
	},
	{
		name: "MIGRATE", def: "true", kind: boolean(func(c *Config) *bool { return &c.Migrate }),
		doc: "whether serving brings the ledger's schema up to date first",
	},
	{
		name: "AUTH_MODE", kind: optionalChoice(func(c *Config) *string { return &c.AuthMode }, authJWT, authHeader),
		doc: "how buyers are told apart; without one, serving refuses to start",
	},
	{
		name: "AUTH_TRUSTED_PROXIES", def: "127.0.0.0/8,::1/128", kind: prefixes(func(c *Config) *[]netip.Prefix { return &c.AuthTrustedProxies }),
		doc: "networks whose X-User-ID is believed if auth.mode is header",
	},
	{
		name: "AUTH_JWT_SECRET", privacy: secret, kind: text(func(c *Config) *string { return &c.AuthJWTSecret }),
		doc: "key of the tokens' HMAC (HS256), 32 bytes or more are advised; auth.mode jwt needs it or auth.jwt_jwks",
	},
	{
		name: "AUTH_JWT_JWKS", privacy: address, kind: keysPlace(),
		doc: "public keys of the tokens, as a JWKS: RS256, ES256, EdDSA; read again every five minutes and for a new kid",
	},
	{
		name: "AUTH_JWT_ISSUER", kind: text(func(c *Config) *string { return &c.AuthJWTIssuer }),
		doc: "iss that a token must carry; without one, any is taken",
	},
	{
		name: "AUTH_JWT_AUDIENCE", kind: text(func(c *Config) *string { return &c.AuthJWTAudience }),
		doc: "aud that a token must carry; without one, any is taken",
	},
	{
		name: "AUTH_JWT_LEEWAY", def: "30s", kind: duration(func(c *Config) *time.Duration { return &c.AuthJWTLeeway }, 0, 5*time.Minute),
		doc: "how far the issuer's clock may differ from ours",
	},
	{
		name: "CORS_ORIGINS", kind: origins(),
		doc: "web origins whose pages may call the buyers' routes; without one, none may",
	},
	{
		name: "LIMIT_BUYER", def: "0", kind: rate(func(c *Config) *time.Duration { return &c.LimitBuyer }),
		doc: "how often a buyer may ask for an order or cancel one; past it the answer is rate-limited",
	},
	{
		name: "LIMIT_BUYER_BURST", def: "10", kind: integer(func(c *Config) *int { return &c.LimitBuyerBurst }, 1, mostBurst),
		doc: "requests at once that limit.buyer leaves to a buyer who has not asked for a while",
	},
	{
		name: "LIMIT_ADDRESS", def: "0", kind: rate(func(c *Config) *time.Duration { return &c.LimitAddress }),
		doc: "the same of one address or IPv6 /64, also of badly signed payments; trusted proxies' X-Forwarded-For counts",
	},
	{
		name: "LIMIT_ADDRESS_BURST", def: "100", kind: integer(func(c *Config) *int { return &c.LimitAddressBurst }, 1, mostBurst),
		doc: "requests at once that limit.address leaves to an address that has not asked for a while",
	},
	{
		name: "LIMIT_CPU", def: "0", kind: integer(func(c *Config) *int { return &c.LimitCPU }, 0, 100),
		doc: "how busy the processors may be, in percent; past it a part of the buyers is told overloaded; 0 for no limit",
	},
	{
		name: "DENY_LIST", kind: text(func(c *Config) *string { return &c.DenyList }),
		doc: "file of buyers and addresses that get no order, read again when it changes; without one, none is denied",
	},
	{
		name: "TICKET_SECRETS", privacy: secret, kind: secrets(func(c *Config) *[]string { return &c.TicketSecrets }),
		doc: "keys of entry tickets; all are believed, the first signs; without one, tickets are ignored",
	},
	{
		name: "TICKET_ACTIVITIES", kind: activityNames(),
		doc: "activities that take nobody without a ticket; without one, tickets only raise limit.buyer",
	},
	{
		name: "PAYMENT_SECRETS", privacy: secret, kind: secrets(func(c *Config) *[]string { return &c.PaymentSecrets }),
		doc: "keys of whoever takes the money, all believed, so that they can rotate; without one, no payment is taken in",
	},
	{
		name: "BREAKER_PERCENT", def: "50", kind: integer(func(c *Config) *int { return &c.BreakerPercent }, 0, 100),
		doc: "share of failed or slow calls to Redis or NATS that turns buyers away until it is well; 0 never",
	},
	{
		name: "BREAKER_SLOW", def: "1s", kind: duration(func(c *Config) *time.Duration { return &c.BreakerSlow }, 10*time.Millisecond, time.Minute),
		doc: "a call to Redis or NATS that takes longer is slow",
	},
	{
		name: "ROLES", def: "api,worker", kind: subset(func(c *Config) *[]string { return &c.Roles }, roleAPI, roleWorker),
		doc: "what this process does: api takes orders, worker settles them",
	},
	{
		name: "PARTITIONS", def: "16", kind: integer(func(c *Config) *int { return &c.Partitions }, 1, 256),
		doc: "slices of the order log, each settled by one worker; recorded in the ledger",
	},
	{
		name: "QUEUE_LIMIT", def: "10000", kind: integer(func(c *Config) *int { return &c.QueueLimit }, 1, math.MaxInt32),
		doc: "waiting requests per activity; past it the answer is overloaded",
	},
	{
		name: "BACKLOG_LIMIT", def: "1000000", kind: integer(func(c *Config) *int { return &c.BacklogLimit }, 1, math.MaxInt32),
		doc: "unsettled orders in the log; past it the answer is overloaded",
	},
	{
		name: "SETTLE_RATE", def: "0", kind: rate(func(c *Config) *time.Duration { return &c.SettleEvery }),
		doc: "how many orders this process settles; the rest waits in the log",
	},
	{
		name: "LOG_REPLICAS", def: "1", kind: oneOfInts(func(c *Config) *int { return &c.LogReplicas }, 1, 3, 5),
		doc: "copies of the order log; NATS needs as many servers",
	},
	{
		name: "LOG_MAX_BYTES", def: "8GiB", kind: size(func(c *Config) *int64 { return &c.LogMaxBytes }, 1<<20, 1<<50),
		doc: "size of the order log; when it is full, orders are refused, never dropped",
	},
	{
		name: "LOG_MAX_AGE", def: "168h", kind: durationOrZero(func(c *Config) *time.Duration { return &c.LogMaxAge }, leastMaxAge, 10*365*24*time.Hour),
		doc: "how long the log keeps orders for replay, settled or not; 0s keeps them for ever",
	},
	{
		name: "LOG_ACK_WAIT", def: "15s", kind: duration(func(c *Config) *time.Duration { return &c.LogAckWait }, time.Second, duplicateWindow),
		doc: "how long a worker may be silent about a batch before it is delivered again",
	},
	{
		name: "EVENTS_MAX_BYTES", def: "1GiB", kind: size(func(c *Config) *int64 { return &c.EventsMaxBytes }, 1<<20, 1<<50),
		doc: "size of the stream of events; when it is full, events wait in the ledger, none is dropped",
	},
	{
		name: "EVENTS_MAX_AGE", def: "168h", kind: durationOrZero(func(c *Config) *time.Duration { return &c.EventsMaxAge }, duplicateWindow, 10*365*24*time.Hour),
		doc: "how long the stream keeps events, read or not; 0s keeps them for ever",
	},
}
