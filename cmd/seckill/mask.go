package main

import (
	"regexp"
	"strings"
)

// masked stands where a secret would be.
const masked = "xxxxx"

// shown is text as people may see it: no part of it is a secret.
func (s setting) shown(text string) string {
	switch {
	case text == "" || s.privacy == public:
		return text
	case s.privacy == secret:
		return masked
	case s.name == "POSTGRES_URL": // one URL may name several hosts, separated by commas
		return maskAddress(text)
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		parts[i] = maskAddress(part)
	}
	if strings.Count(text, "@") > strings.Count(strings.Join(parts, ","), "@") {
		return masked // a comma inside a password tore it into parts
	}
	return strings.Join(parts, ",")
}

var (
	secretParameter = regexp.MustCompile(`(?i)([^?&=]*(?:pass|secret|token)[^?&=]*)=[^&]*`)
	secretKeyword   = regexp.MustCompile(`(?i)(\w*pass\w*)\s*=\s*('(?:\\.|[^'\\])*'|(?:\\.|\S)+)`)
)

// maskAddress hides the password of a URL or of keyword=value pairs. In doubt
// it hides everything: a password with a slash in it moves the end of the host
// to where no parser finds it.
func maskAddress(text string) string {
	scheme, rest, isURL := cutScheme(text)
	if !isURL {
		return maskKeywords(text)
	}
	authority, after := splitAuthority(rest)
	if strings.Contains(after, "@") {
		return masked
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		authority = maskUser(scheme, authority[:at]) + authority[at:]
	}
	path, query, hasQuery := strings.Cut(after, "?")
	if hasQuery {
		after = path + "?" + secretParameter.ReplaceAllString(query, "${1}="+masked)
	}
	return scheme + "://" + authority + after
}

// maskUser hides what follows the user name. A name alone is a token to NATS
// and no more than a name to Postgres and Redis.
func maskUser(scheme, userinfo string) string {
	user, _, hasPassword := strings.Cut(userinfo, ":")
	switch {
	case hasPassword:
		return user + ":" + masked
	case strings.HasPrefix(scheme, "postgres") || strings.HasPrefix(scheme, "redis"):
		return user
	default:
		return masked
	}
}

func maskKeywords(text string) string {
	if strings.Contains(text, "@") || strings.Count(text, "'")%2 != 0 {
		return masked
	}
	return secretKeyword.ReplaceAllString(text, "${1}="+masked)
}

var schemeName = regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9+.-]*\z`)

// cutScheme divides a URL behind its scheme. Keyword=value pairs are no URL,
// even with "://" in one of the values.
func cutScheme(text string) (scheme, rest string, isURL bool) {
	scheme, rest, isURL = strings.Cut(text, "://")
	return scheme, rest, isURL && schemeName.MatchString(scheme)
}

// splitAuthority divides what follows "://" where the host ends.
func splitAuthority(rest string) (authority, after string) {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end], rest[end:]
	}
	return rest, ""
}
