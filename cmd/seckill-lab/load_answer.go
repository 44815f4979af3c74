package main

import (
	"bytes"
	"errors"
	"fmt"
)

// httpAnswer is one HTTP/1.1 answer, its body a part of the buffer it was parsed from.
type httpAnswer struct {
	status int
	close  bool // the server will close the connection
	body   []byte
}

// Faults of an answer. All of them leave the connection in an unknown place, so that it is closed.
var (
	errNotHTTP   = errors.New("answer is not HTTP/1.1")
	errHeader    = errors.New("answer has a malformed header")
	errNoLength  = errors.New("answer has neither Content-Length nor chunked coding, or both, or contradicting ones")
	errCoding    = errors.New("answer has a transfer coding that is not a single chunked of HTTP/1.1")
	errChunk     = errors.New("answer has a malformed chunk")
	errHeadLimit = fmt.Errorf("answer has a header of more than %d bytes", maxHeadBytes)
	errBodyLimit = fmt.Errorf("answer has a body of more than %d bytes", maxBodyBytes)
)

// parseAnswer reads one answer from the start of buf and returns how many bytes it took; 0 means that more are
// needed. It is strict (RFC 9112): what a careful client must not accept is an error, since a wrong guess about
// where an answer ends would hand it to the next request. A chunked body is put together in place, inside buf.
func parseAnswer(buf []byte) (answer httpAnswer, n int, err error) {
	for {
		answer, head, framing, err := parseHead(buf[n:])
		if err != nil || head == 0 {
			return answer, 0, err
		}
		n += head
		if answer.status < 200 { // 100-continue and the like: the real answer follows
			continue
		}
		var body int
		switch {
		case answer.status == 204 || answer.status == 304:
			return answer, n, nil
		case framing.chunked:
			answer.body, body, err = parseChunks(buf[n:])
			if err != nil || body == 0 {
				return answer, 0, err
			}
		case len(buf)-n < framing.length:
			return answer, 0, nil
		default:
			body = framing.length
			answer.body = buf[n : n+body]
		}
		return answer, n + body, nil
	}
}

// framing says where a body ends. length is -1 if the header does not give it.
type framing struct {
	old     bool // HTTP/1.0, which has no transfer codings
	chunked bool
	length  int
}

// parseHead reads a status line and header. It takes 0 bytes if the empty line is not there yet.
func parseHead(buf []byte) (answer httpAnswer, taken int, frame framing, err error) {
	frame.length = -1
	first := true
	for {
		end := bytes.IndexByte(buf[taken:], '\n')
		if end < 0 || taken+end >= maxHeadBytes {
			if len(buf) >= maxHeadBytes {
				err = errHeadLimit
			}
			return answer, 0, frame, err
		}
		if end == 0 || buf[taken+end-1] != '\r' {
			return answer, 0, frame, errHeader
		}
		line := buf[taken : taken+end-1]
		taken += end + 1
		switch {
		case first:
			first = false
			if answer.status, frame.old, err = parseStatusLine(line); err != nil {
				return answer, 0, frame, err
			}
			answer.close = frame.old
		case len(line) == 0:
			if answer.status >= 200 && answer.status != 204 && answer.status != 304 &&
				frame.chunked == (frame.length >= 0) {
				return answer, 0, frame, errNoLength
			}
			return answer, taken, frame, nil
		default:
			if err = parseHeader(line, &answer, &frame); err != nil {
				return answer, 0, frame, err
			}
		}
	}
}

// parseStatusLine reads "HTTP/1.1 202 Accepted". HTTP/1.0 closes after the answer.
func parseStatusLine(line []byte) (status int, old bool, err error) {
	const sample = "HTTP/1.1 202"
	if len(line) < len(sample) || string(line[:7]) != "HTTP/1." || line[8] != ' ' ||
		(line[7] != '0' && line[7] != '1') || (len(line) > len(sample) && line[12] != ' ') {
		return 0, false, errNotHTTP
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return 0, false, errNotHTTP
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 || status > 599 || status == 101 {
		return 0, false, errNotHTTP
	}
	return status, line[7] == '0', nil
}

// parseHeader takes what matters from one header line; the lengths are compared first, as most lines do not.
func parseHeader(line []byte, answer *httpAnswer, frame *framing) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] <= ' ' || line[colon-1] <= ' ' {
		return errHeader
	}
	value := bytes.Trim(line[colon+1:], " \t")
	switch name := line[:colon]; {
	case colon == 14 && bytes.EqualFold(name, []byte("Content-Length")):
		length, err := parseLength(value)
		if err != nil {
			return err
		}
		if frame.length >= 0 && frame.length != length {
			return errNoLength
		}
		frame.length = length
	case colon == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if frame.old || frame.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return errCoding
		}
		frame.chunked = true
	case colon == 10 && bytes.EqualFold(name, []byte("Connection")):
		if bytes.EqualFold(value, []byte("close")) {
			answer.close = true
		}
	}
	return nil
}

func parseLength(value []byte) (int, error) {
	if len(value) == 0 || len(value) > 18 {
		return 0, errHeader
	}
	length := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, errHeader
		}
		length = length*10 + int(c-'0')
	}
	if length > maxBodyBytes {
		return 0, errBodyLimit
	}
	return length, nil
}
