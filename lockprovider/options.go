package lockprovider

import "time"

// Option changes one acquisition. The zero value of everything is the provider's
// default.
type Option func(*request)

type request struct {
	ttl     time.Duration
	wait    time.Duration
	maxHold time.Duration
	guard   time.Duration
	note    string
	purpose string
	reentry bool
}

// WithTTL asks for another time to live than Config.TTL: for how long a holder
// that vanished keeps the name. At least MinTTL; whole seconds on etcd, rounded up.
func WithTTL(d time.Duration) Option { return func(r *request) { r.ttl = d } }

// WithWait bounds how long Acquire waits, store failures included. 0 (the
// default) waits until ctx ends. It does not bound the work.
func WithWait(d time.Duration) Option { return func(r *request) { r.wait = d } }

// WithMaxHold ends the lease with reason MaxHold after d, however healthy it is,
// so that a stuck holder cannot keep the name for ever. 0 means no limit.
func WithMaxHold(d time.Duration) Option { return func(r *request) { r.maxHold = d } }

// WithNote attaches a text that Inspect, List and HeldError show. At most 1 KiB is kept.
func WithNote(s string) Option { return func(r *request) { r.note = s } }

// WithPurpose sets the purpose label of the hold-time metric ("other" by default).
// Use a small fixed set of words: every value is a time series.
func WithPurpose(s string) Option { return func(r *request) { r.purpose = s } }

// WithReentry lets an acquisition under Lease.Context of the same name return a
// second handle on the same hold: same token, same deadline; the last Release
// counts. Other options of a nested acquisition are ignored: it never shortens or
// extends the hold. The hold travels in the context, so two goroutines given one
// context share it.
func WithReentry() Option { return func(r *request) { r.reentry = true } }

// WithGuard sets how long before the store may hand the name on this holder stops
// (on top of the clock drift of 1 % + 2 ms). Default: a tenth of the TTL, at
// least 50 ms; at most a third of the TTL.
func WithGuard(d time.Duration) Option { return func(r *request) { r.guard = d } }
