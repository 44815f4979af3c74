package main

import (
	"net/url"
	"regexp"
	"strings"
)

// The kinds of settings that say who may ask, and for what.

// adminToken is one bearer token of the admin routes and whose it is.
type adminToken struct {
	name     string // empty: nobody's in particular
	token    string
	readOnly bool
}

// String keeps the token out of whatever prints a Config's fields.
func (t adminToken) String() string { return t.name + ":" + masked }

// GoString is String.
func (t adminToken) GoString() string { return t.String() }

// operators lists all tokens of the admin routes.
func (c Config) operators() []adminToken {
	var all []adminToken
	if c.AdminToken != "" {
		all = append(all, adminToken{token: c.AdminToken})
	}
	all = append(all, c.AdminTokens...)
	for _, t := range c.AdminReadTokens {
		t.readOnly = true
		all = append(all, t)
	}
	return all
}

var operatorName = regexp.MustCompile(`\A[A-Za-z0-9_.@-]{1,64}\z`)

func tokens(field func(*Config) *[]adminToken) kind {
	return kind{
		word:    "list",
		allowed: "tokens of printable ASCII without blanks, each as name:token or alone, separated by commas",
		set: func(c *Config, text string) bool {
			var all []adminToken
			for _, one := range list(text) {
				t := adminToken{token: one}
				if name, rest, named := strings.Cut(one, ":"); named {
					if !operatorName.MatchString(name) {
						return false
					}
					t.name, t.token = name, rest
				}
				if t.token == "" || !headerText(t.token) {
					return false
				}
				all = append(all, t)
			}
			*field(c) = all
			return true
		},
	}
}

// headerText says whether text can stand in a header as one word.
func headerText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// keysPlace takes a path or a URL. A URL over http is for a loopback or a trusted net.
func keysPlace() kind {
	return kind{
		word:    "url",
		allowed: "empty, the path of a file, or http://host/path (or https://)" + encoded,
		set: func(c *Config, text string) bool {
			c.AuthJWTJWKS = text
			return !strings.Contains(text, "://") || urlOf(text, "http", "https")
		},
	}
}

// origins takes web origins as browsers write them.
func origins() kind {
	return kind{
		word:    "list",
		allowed: "origins such as https://shop.example, separated by commas, or * for any",
		set: func(c *Config, text string) bool {
			c.CORSOrigins = list(text)
			for _, one := range c.CORSOrigins {
				u, err := url.Parse(one)
				bare := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && one == u.Scheme+"://"+u.Host
				if one != "*" && !bare {
					return false
				}
			}
			return true
		},
	}
}
