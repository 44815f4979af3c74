package main

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// The kinds of settings. Each takes the field it fills and its range; bounds
// are included.

func duration(field func(*Config) *time.Duration, least, most time.Duration) kind {
	return kind{
		word:    "duration",
		allowed: fmt.Sprintf("a duration from %s to %s", brief(least), brief(most)),
		set: func(c *Config, text string) (ok bool) {
			d, err := time.ParseDuration(text)
			*field(c) = d
			return err == nil && d >= least && d <= most
		},
	}
}

func durationOrZero(field func(*Config) *time.Duration, least, most time.Duration) kind {
	k := duration(field, least, most)
	inRange := k.set
	k.allowed = "0s, or " + k.allowed
	k.set = func(c *Config, text string) bool {
		d, err := time.ParseDuration(text)
		return inRange(c, text) || err == nil && d == 0
	}
	return k
}

// brief writes 10m instead of 10m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func integer(field func(*Config) *int, least, most int) kind {
	return kind{
		word:    "number",
		allowed: fmt.Sprintf("a whole number from %d to %d", least, most),
		set: func(c *Config, text string) bool {
			n, err := strconv.Atoi(text)
			*field(c) = n
			return err == nil && n >= least && n <= most
		},
	}
}

func oneOfInts(field func(*Config) *int, allowed ...int) kind {
	choices := make([]string, len(allowed))
	for i, n := range allowed {
		choices[i] = strconv.Itoa(n)
	}
	return kind{
		word:    "number",
		allowed: alternatives(choices),
		choices: choices,
		set: func(c *Config, text string) bool {
			n, err := strconv.Atoi(text)
			*field(c) = n
			return err == nil && slices.Contains(allowed, n)
		},
	}
}

func size(field func(*Config) *int64, least, most int64) kind {
	return kind{
		word: "size",
		allowed: fmt.Sprintf("a size from %s to %s, such as 8GiB",
			strings.ReplaceAll(humanize.IBytes(uint64(least)), ".0 ", ""), strings.ReplaceAll(humanize.IBytes(uint64(most)), ".0 ", "")),
		set: func(c *Config, text string) bool {
			n, err := humanize.ParseBytes(text)
			if err != nil || n > math.MaxInt64 {
				return false
			}
			*field(c) = int64(n)
			return int64(n) >= least && int64(n) <= most
		},
	}
}

func boolean(field func(*Config) *bool) kind {
	choices := []string{"true", "false"}
	return kind{
		word:    "bool",
		allowed: alternatives(choices),
		choices: choices,
		set: func(c *Config, text string) bool {
			v, err := strconv.ParseBool(text)
			*field(c) = v
			return err == nil
		},
	}
}

func choice(field func(*Config) *string, choices ...string) kind {
	return kind{
		word:    "name",
		allowed: alternatives(choices),
		choices: choices,
		set: func(c *Config, text string) bool {
			*field(c) = text
			return slices.Contains(choices, text)
		},
	}
}

func optionalChoice(field func(*Config) *string, choices ...string) kind {
	k := choice(field, choices...)
	given := k.set
	k.set = func(c *Config, text string) bool { return given(c, text) || text == "" }
	return k
}

func subset(field func(*Config) *[]string, choices ...string) kind {
	return kind{
		word:    "list",
		allowed: "one or more of " + strings.Join(choices, ",") + ", each once",
		choices: append([]string{strings.Join(choices, ",")}, choices...),
		set: func(c *Config, text string) bool {
			given := list(text)
			*field(c) = given
			for i, one := range given {
				if !slices.Contains(choices, one) || slices.Contains(given[:i], one) {
					return false
				}
			}
			return len(given) > 0
		},
	}
}

func prefixes(field func(*Config) *[]netip.Prefix) kind {
	return kind{
		word:    "list",
		allowed: "networks separated by commas, such as 10.0.0.0/8,::1/128",
		set: func(c *Config, text string) bool {
			networks := []netip.Prefix{}
			for _, one := range list(text) {
				network, err := netip.ParsePrefix(one)
				if err != nil {
					return false
				}
				networks = append(networks, network.Masked())
			}
			*field(c) = networks
			return true
		},
	}
}

// namespace takes what all stores take as a name. Postgres keeps schemas that begin
// with pg_ for itself.
func namespace() kind {
	re := regexp.MustCompile(`\A[a-z][a-z0-9_]{0,30}\z`)
	return kind{
		word:    "name",
		allowed: "a name that matches [a-z][a-z0-9_]{0,30} and does not begin with pg_",
		set: func(c *Config, text string) bool {
			c.Namespace = text
			return re.MatchString(text) && !strings.HasPrefix(text, "pg_")
		},
	}
}

func text(field func(*Config) *string) kind {
	return kind{
		word:    "text",
		allowed: "any text",
		set: func(c *Config, text string) bool {
			*field(c) = text
			return true
		},
	}
}

// token takes what fits into an Authorization header, so that a stray blank or
// line end shows here and not as a token that never matches.
func token(field func(*Config) *string) kind {
	return kind{
		word:    "text",
		allowed: "printable ASCII without blanks (is there a line end in it?)",
		set: func(c *Config, text string) bool {
			*field(c) = text
			return headerText(text)
		},
	}
}

func listenAddr(field func(*Config) *string) kind {
	return kind{
		word:    "address",
		allowed: "an address such as 127.0.0.1:8080 or :8080",
		set: func(c *Config, text string) bool {
			*field(c) = text
			return hostPort(text)
		},
	}
}

// encoded is said of every URL that may carry a password: a password with a
// slash or the like in it is what usually spoils one.
const encoded = "; percent-encode special characters in user and password"

func redisURLs() kind {
	return kind{
		word:    "urls",
		allowed: "one or more of redis://[user:password@]host:port[/db] (or rediss://), separated by commas" + encoded,
		set: func(c *Config, text string) bool {
			c.RedisURLs = list(text)
			return len(c.RedisURLs) > 0 && !slices.ContainsFunc(c.RedisURLs, func(one string) bool { return !urlOf(one, "redis", "rediss") })
		},
	}
}

func natsURLs() kind {
	return kind{
		word:    "urls",
		allowed: "one or more of nats://[user:password@]host:port (or tls://, ws://, wss://), separated by commas" + encoded,
		set: func(c *Config, text string) bool {
			urls := list(text)
			for i, one := range urls {
				if !strings.Contains(one, "://") {
					urls[i] = "nats://" + one // as the client would
				}
				if !urlOf(urls[i], "nats", "tls", "ws", "wss") {
					return false
				}
			}
			c.NATSURL = strings.Join(urls, ",")
			return len(urls) > 0
		},
	}
}

func webURL(field func(*Config) *string) kind {
	return kind{
		word:    "url",
		allowed: "empty, or http://host:port (or https://)" + encoded,
		set: func(c *Config, text string) bool {
			*field(c) = text
			return text == "" || urlOf(text, "http", "https")
		},
	}
}

// postgresURL looks only at the outline: the driver reads certificates and
// password files while it parses, which must not be needed to print a setting.
func postgresURL() kind {
	return kind{
		word: "url",
		allowed: "postgres://[user:password@]host:port/database, or keyword=value pairs" +
			encoded,
		set: func(c *Config, text string) bool {
			c.PostgresURL = text
			scheme, rest, isURL := cutScheme(text)
			if !isURL {
				return text == "" || strings.Contains(text, "=")
			}
			_, after := splitAuthority(rest)
			return (scheme == "postgres" || scheme == "postgresql") && !strings.Contains(after, "@")
		},
	}
}

func etcdEndpoints() kind {
	return kind{
		word:    "list",
		allowed: "host:port or http://host:port (or https://), separated by commas, without user and password",
		set: func(c *Config, text string) bool {
			c.EtcdEndpoints = list(text)
			for _, one := range c.EtcdEndpoints {
				if strings.Contains(one, "@") || !hostPort(one) && !urlOf(one, "http", "https") {
					return false
				}
			}
			return true
		},
	}
}

// list splits at commas; blanks around the parts do not count, and nothing is an
// empty list.
func list(text string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{}
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func hostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// urlOf reports whether text is a URL of one of the schemes that names a host
// and hides no misplaced password.
func urlOf(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && !strings.Contains(u.Path+u.Fragment, "@")
}

// alternatives writes "a, b or c".
func alternatives(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}
