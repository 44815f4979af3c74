package lockprovider

import (
	"strconv"
	"strings"
	"time"
)

// What a lock's key says is "lease SIZE OWNER TOKEN SINCE NOTE": SIZE is the length of
// OWNER in bytes, SINCE in milliseconds since 1970. All up to OWNER and its space is the
// owner's mark; no mark begins with another, so scripts compare owners by prefix.

// ownerMark is how a value of the owner begins.
func ownerMark(owner string) string {
	return "lease " + strconv.Itoa(len(owner)) + " " + owner + " "
}

// readValue is what a key says of the name; false: it is no lock.
func readValue(name, value string) (in Info, ok bool) {
	rest, ok := strings.CutPrefix(value, "lease ")
	if !ok {
		return in, false
	}
	size, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n >= len(rest) || rest[n] != ' ' {
		return in, false
	}
	token, tail, _ := strings.Cut(rest[n+1:], " ")
	since, note, ok := strings.Cut(tail, " ")
	in = Info{Name: name, Owner: rest[:n], Note: note}
	if in.Token, err = strconv.ParseUint(token, 10, 64); err != nil {
		return in, false
	}
	ms, err := strconv.ParseInt(since, 10, 64)
	in.Since = time.UnixMilli(ms)
	return in, ok && err == nil
}
