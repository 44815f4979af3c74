package admission

import "net/http"

// The values are shared by all answers, so that a header costs no allocation.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	onlyTLS    = []string{"max-age=31536000"}
)

// SecureHeaders sets what tells a browser to guess, leak and run nothing. A handler
// that serves a page sets a Content-Security-Policy of its own instead.
func SecureHeaders(h http.Header, r *http.Request) {
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noContent
	if r.TLS != nil {
		h["Strict-Transport-Security"] = onlyTLS
	}
}
