package main

import (
	"bytes"
	"strconv"
)

// kindOf names the kind of an answer: its status and, for a problem (RFC 9457), the last segment of its type, as
// in "409 sold-out". It appends to scratch, so that naming allocates nothing.
func kindOf(scratch []byte, status int, body []byte) []byte {
	scratch = strconv.AppendInt(scratch, int64(status), 10)
	if status < 400 {
		return scratch
	}
	problem := jsonString(body, `"type"`)
	if cut := bytes.LastIndexAny(problem, "/:#"); cut >= 0 {
		problem = problem[cut+1:]
	}
	if len(problem) == 0 || len(problem) > 64 || string(problem) == "blank" { // about:blank: nothing but a status
		return scratch
	}
	return append(append(scratch, ' '), problem...)
}

// jsonString finds the first string value under a quoted name without decoding the document. That is exact for
// the flat bodies it is used on; strings with escapes are left alone, since neither ids nor problem types have any.
func jsonString(body []byte, quotedName string) []byte {
	at := bytes.Index(body, []byte(quotedName))
	if at < 0 {
		return nil
	}
	rest := bytes.TrimLeft(body[at+len(quotedName):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return nil
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return nil
	}
	value := rest[1:]
	end := bytes.IndexByte(value, '"')
	if end < 0 || bytes.IndexByte(value[:end], '\\') >= 0 {
		return nil
	}
	return value[:end]
}
