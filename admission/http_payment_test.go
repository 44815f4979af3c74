package admission

import (
	"strings"
	"testing"
	"time"
)

func TestPaymentSignature(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	body := []byte(`{"order_id":"x"}`)
	old, fresh, other := []byte("the key that goes out"), []byte("the key that comes in"), []byte("a key of somebody else")
	keys := [][]byte{fresh, old}
	good := SignPayment(fresh, body, now)
	for name, c := range map[string]struct {
		header string
		body   []byte
		holds  bool
	}{
		"newest key":         {good, body, true},
		"older key":          {SignPayment(old, body, now), body, true},
		"both keys":          {SignPayment(other, body, now) + "," + strings.SplitN(good, ",", 2)[1], body, true},
		"five minutes old":   {SignPayment(fresh, body, now.Add(-5*time.Minute)), body, true},
		"five minutes ahead": {SignPayment(fresh, body, now.Add(5*time.Minute)), body, true},
		"too old":            {SignPayment(fresh, body, now.Add(-5*time.Minute-time.Second)), body, false},
		"too far ahead":      {SignPayment(fresh, body, now.Add(5*time.Minute+time.Second)), body, false},
		"unknown key":        {SignPayment(other, body, now), body, false},
		"another body":       {good, []byte(`{"order_id":"y"}`), false},
		"another time":       {strings.Replace(good, "t=19", "t=18", 1), body, false},
		"no time":            {strings.SplitN(good, ",", 2)[1], body, false},
		"time twice":         {"t=1," + good, body, false},
		"signed time":        {strings.Replace(good, "t=", "t=+", 1), body, false},
		"no signature":       {"t=1900000000", body, false},
		"half a signature":   {good[:len(good)-2], body, false},
		"not hex":            {good[:len(good)-2] + "zz", body, false},
		"empty":              {"", body, false},
		"too many":           {SignPayment(other, body, now) + strings.Repeat(","+strings.SplitN(good, ",", 2)[1], mostSignatures), body, false},
	} {
		if err := checkSignature(c.header, c.body, keys, now); (err == nil) != c.holds {
			t.Errorf("%s: %v, want it to hold: %v", name, err, c.holds)
		}
	}
	if err := checkSignature(good, body, nil, now); err == nil {
		t.Error("a node without keys believes a signature")
	}
}

// What is decoded is a payment to the letter, and is read as it was meant.
func FuzzDecodePayment(f *testing.F) {
	const id = "01a22f1c-46d0-7e8a-8d76-93a5a67159d5"
	for _, body := range []string{
		`{"order_id":"` + id + `","payment_id":"p1","amount":100}`,
		`{"order_id":"` + id + `","payment_id":"p1","amount":1e2}`,
		`{"order_id":"` + id + `","payment_id":"p1","amount":100,"amount":1}`,
		`{"order_id":"` + id + `","payment_id":"p1","Amount":100}`,
		`{"order_id":"` + id + `","payment_id":"\u0000","amount":-0}`,
		`{"order_id":"` + id + `","payment_id":"p1","amount":9223372036854775808}x`,
		`{"payment_id":"p1","amount":0}`, `[]`, ``, "\xff",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decodePayment(body)
		if err == nil && (!ValidID(p.Order) || !ValidKey(p.ID) || p.Amount < 0 || strings.Count(string(body), "amount") > 1) {
			t.Errorf("%q was read as %+v", body, p)
		}
	})
}

// No header but one made with the key holds.
func FuzzPaymentSignature(f *testing.F) {
	now, key, body := time.Unix(1_900_000_000, 0), []byte("a key of a fuzz test"), []byte(`{"order_id":"x"}`)
	good := SignPayment(key, body, now)
	_, mac, _ := strings.Cut(good, "v1=")
	for _, seed := range []string{good, "", "t=,v1=", "t=1900000000,v1=00", "t=1900000000", good + ",v1=" + mac, "t=9223372036854775808,v1=" + mac, "t=1900000000, v1=" + mac} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		err := checkSignature(header, body, [][]byte{key}, now)
		if err == nil && (!strings.HasPrefix(header, "t=1900000000,") || !strings.Contains(strings.ToLower(header), mac)) {
			t.Errorf("%q holds", header)
		}
	})
}
