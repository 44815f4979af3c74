package admission

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// maxBody is the most that a body may measure, in bytes.
const maxBody = 4 << 10

// orderBody is what a buyer sends.
type orderBody struct {
	SKU      string
	Quantity int64
}

// readOrder reads the body of an order and is strict: whatever it does not
// understand to the letter is refused, because a guess would sell something.
func readOrder(w http.ResponseWriter, r *http.Request) (orderBody, error) {
	into := bodies.Get().(*[maxBody]byte)
	defer bodies.Put(into)
	data, err := readBody(w, r, into[:])
	if err != nil {
		return orderBody{}, err
	}
	body, err := decodeOrder(data)
	if err != nil {
		return orderBody{}, NewProblem(CodeInvalid, `Send {"sku":"…","quantity":1}: %v.`, err)
	}
	return body, nil
}

// bodies are used again: nothing of an order's body outlives readOrder.
var bodies = sync.Pool{New: func() any { return new([maxBody]byte) }}

// readBody reads a body of JSON, into the given memory if it fits there and says so; its
// errors are problems.
func readBody(w http.ResponseWriter, r *http.Request, into []byte) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
			return nil, NewProblem(CodeMediaType, "Send the body as Content-Type: application/json.")
		}
	}
	if n := r.ContentLength; n > 0 && n <= int64(len(into)) {
		if _, err := io.ReadFull(r.Body, into[:n]); err != nil {
			return nil, unreadable(err)
		}
		return into[:n], nil
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, NewProblem(CodeTooLarge, "The body may measure %d bytes.", maxBody)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

func unreadable(err error) *Problem {
	return NewProblem(CodeInvalid, "The body could not be read.").Because(err)
}

// decoders are used again: one and its buffer are half of what decoding an order allocates. Nothing that they
// return outlives decodeObject.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewReader(nil)) }}

// decodeOrder accepts exactly one object with the member sku and, if wanted,
// quantity.
func decodeOrder(data []byte) (orderBody, error) {
	body := orderBody{Quantity: 1}
	if err := decodeObject(data, body.set); err != nil {
		return body, err
	}
	if body.SKU == "" {
		return body, errors.New("sku is missing")
	}
	return body, nil
}

// decodeObject accepts exactly one object and hands out its members, whose values live
// until set returns. The decoder refuses duplicate names and invalid UTF-8.
func decodeObject(data []byte, set func(member string, value jsontext.Value) error) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewReader(data))
	open, err := d.ReadToken()
	if err != nil || open.Kind() != '{' {
		return errors.New("the body is not a JSON object")
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		// Read the name before the next token: it lives in the decoder's buffer.
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := set(member, value); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

func (b *orderBody) set(member string, value jsontext.Value) error {
	switch member {
	case "sku":
		raw, err := jsontext.AppendUnquote(nil, value)
		if err != nil || value.Kind() != '"' || !ValidName(string(raw)) {
			return errors.New("sku is not a name of 1 to 64 letters, digits, _ and -")
		}
		b.SKU = string(raw)
	case "quantity":
		n, err := quantity(value)
		if err != nil {
			return err
		}
		b.Quantity = n
	default:
		return fmt.Errorf("%q is not a member of an order", member)
	}
	return nil
}

// quantity reads [1-9][0-9]{0,8} and nothing else: no sign, fraction, exponent or
// leading zero.
func quantity(value jsontext.Value) (int64, error) {
	bad := fmt.Errorf("quantity is not a whole number from 1 to %d", MaxQuantity)
	if len(value) < 1 || len(value) > 9 || value[0] == '0' {
		return 0, bad
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, bad
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n > MaxQuantity {
		return 0, bad
	}
	return n, nil
}
