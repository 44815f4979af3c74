package consumer

import (
	"encoding/json"
	"testing"

	"seckill/admission"
)

// Whatever is in the dead-letter stream is read as a letter that can be shown, found
// and decided, or as one that says that it cannot be read, with all its bytes.
func FuzzLetter(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"order":{"id":"01999999-0000-7000-8000-000000000001","user":"u","sku":"s1","quantity":1,"at":"2026-12-01T00:00:00Z"},"activity":"a1","reason":"unsettleable","detail":"d","seq":7,"deliveries":3,"at":"2026-12-01T00:00:00Z"}`,
		`{"v":1,"activity":"unknown","reason":"unreadable","seq":7,"data":"ew=="}`,
		`{"v":1,"order":{"id":"1'; drop table orders; --"},"activity":"a1"}`,
		`{"v":1,"order":{},"activity":"a1"}`, `{"v":2,"activity":"a1"}`, `{"v":1,"activity":"a.>"}`, `{"order":null}`, `[]`, ``, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := decodeLetter(admission.Message{Seq: 7, Data: data})
		if l.Number != 7 || l.Version != letterVersion || !admission.ValidName(l.Activity) {
			t.Errorf("%q became %+v", data, l)
		}
		if l.Order == nil {
			if l.Reason == "unreadable" && l.Activity == unknownActivity && l.ID() == "letter-7" {
				return
			}
			var plain DeadLetter
			if json.Unmarshal(data, &plain) != nil {
				t.Errorf("%q is not JSON and became %+v", data, l)
			}
			return
		}
		if err := l.Order.Check(); err != nil {
			t.Errorf("%q became the order %+v: %v", data, l.Order, err)
		}
	})
}
