package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// stayUp prints what can be tried and waits for the end: Ctrl-C, which is no failure, or the death of the
// service, which is one.
func stayUp(ctx context.Context, out, words io.Writer, s *service, r *saleReport, dir string) error {
	if err := s.openSale(ctx, tryActivity, "Try it yourself", saleSKUName, tryUnits); err != nil {
		return err
	}
	if _, err := io.WriteString(out, invitation(s, r, dir)); err != nil {
		return fmt.Errorf("print the addresses: %w", err)
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(words, "\nstopping")
		return nil
	case <-s.gone:
		return fmt.Errorf("serve: it ended by itself with %s; its log ends with\n%s", s.ended, s.logTail())
	}
}

// invitation is the addresses and commands to copy.
func invitation(s *service, r *saleReport, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nStill running; Ctrl-C stops it and removes everything.\n\n"+
		"  buyers     http://%s\n  operators  http://%s\n  logs       %s\n\n", s.public, s.admin, dir)
	command := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "# %s\n"+format+"\n", append([]any{what}, args...)...)
	}
	buyers, operators := "http://"+s.public+"/v1/activities/", "http://"+s.admin
	command(fmt.Sprintf("place an order, in another sale with %d units", tryUnits),
		`curl -i -X POST %s%s/orders -H 'X-User-ID: me' -H 'Content-Type: application/json' -d '{"sku":"%s","quantity":1}'`,
		buyers, tryActivity, saleSKUName)
	if id, buyer, ok := r.tally.someOrder(); ok {
		command("read an order of the sale, as its buyer",
			`curl -s '%s%s/orders/%s?wait=5s' -H 'X-User-ID: %s'`, buyers, saleActivity, id, buyerName(buyer))
	}
	command("the sale, as buyers see it", `curl -s %s%s`, buyers, saleActivity)
	command("the sale, as operators see it",
		`curl -s %s/admin/v1/activities/%s -H 'Authorization: Bearer %s'`, operators, saleActivity, s.token)
	command("metrics", `curl -s %s/metrics | grep ^seckill_`, operators)
	b.WriteString("\n")
	return b.String()
}

// someOrder is an admitted order, the same one for the same answers.
func (t *tally) someOrder() (id string, buyer uint32, ok bool) {
	ids := make([]string, 0, len(t.admitted))
	for id := range t.admitted {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "", 0, false
	}
	id = slices.Min(ids)
	return id, t.admitted[id], true
}
