package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"seckill/consumer"
)

const (
	restWait  = 15 * time.Second // for an activity to come to rest before its audit
	judgeTime = 10 * time.Minute // for all audits of a load
)

// judgement is what the audit of a load found. A load is only as good as its books: nothing else of it is told
// if they are not clean.
type judgement struct {
	Books      bool     `json:"books"`   // ledger, gate and log were compared
	Answers    bool     `json:"answers"` // what the buyers were told was compared with the ledger
	Clean      bool     `json:"clean"`
	Violations []string `json:"violations,omitempty"` // the first few
	More       int      `json:"violations_left_off,omitempty"`

	skus []consumer.AuditedSKU
}

func (j *judgement) violation(format string, args ...any) {
	j.Clean = false
	if len(j.Violations) >= faultsShown {
		j.More++
		return
	}
	j.Violations = append(j.Violations, fmt.Sprintf(format, args...))
}

// soldOut says whether no unit of any offer is left; false if that is not known.
func (j *judgement) soldOut() bool {
	for _, sku := range j.skus {
		if sku.Stock > 0 {
			return false
		}
	}
	return len(j.skus) > 0
}

// judgeLoad compares the books of the target with each other and with what the buyers were told, as far as the target
// says where they are.
func judgeLoad(ctx context.Context, t *target, h *heard, th *throng) (*judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	j := &judgement{Clean: true}
	h.settle()
	for _, fault := range h.faults {
		j.violation("answers: %s", fault)
	}
	j.More += h.faulty - len(h.faults)
	if len(t.admins) > 0 || t.audit != nil {
		j.Books = true
		for _, activity := range t.activities {
			if err := j.readAudit(ctx, t, activity); err != nil {
				return nil, fmt.Errorf("audit %s: %w", activity, err)
			}
		}
	}
	if t.postgresURL != "" {
		j.Answers = true
		if err := j.compareAnswers(ctx, t, h, th); err != nil {
			return nil, fmt.Errorf("compare the answers with the ledger: %w", err)
		}
	}
	return j, nil
}

// readAudit takes one activity's audit into account.
func (j *judgement) readAudit(ctx context.Context, t *target, activity string) error {
	ask := t.askAudit
	if t.audit != nil {
		ask = t.audit
	}
	r, err := ask(ctx, activity)
	if err != nil {
		return err
	}
	for _, v := range r.Violations {
		j.violation("%s: %s %s: %s", v.Law, v.Activity, strings.TrimSpace(v.SKU+" "+v.Order), v.Detail)
	}
	j.More += r.LeftOff
	if !r.AtRest {
		j.violation("%s did not come to rest within %v: its books cannot be compared", activity, restWait)
	}
	for _, a := range r.Activities {
		j.skus = append(j.skus, a.SKUs...)
	}
	return nil
}

// askAudit lets the service audit one activity.
func (t *target) askAudit(ctx context.Context, activity string) (r consumer.Report, err error) {
	url := fmt.Sprintf("%s/admin/v1/activities/%s/audit?wait=%s", t.admins[0], activity, restWait)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return r, err
	}
	request.Header.Set("Authorization", "Bearer "+t.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return r, fmt.Errorf("%s: %s", answer.Status, bytes.TrimSpace(said))
	}
	return r, json.NewDecoder(answer.Body).Decode(&r)
}

// compareAnswers reads the rows of the ledger itself, in the order of their ids, beside the sorted answers.
func (j *judgement) compareAnswers(ctx context.Context, t *target, h *heard, th *throng) error {
	db, err := pgx.Connect(ctx, t.postgresURL)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	rows, err := db.Query(ctx, `select id, activity_id, sku_id, user_id, status from `+
		pgx.Identifier{t.namespace, "orders"}.Sanitize()+` where activity_id = any($1) order by id`, t.activities)
	if err != nil {
		return err
	}
	walk := answerWalk{judgement: j, throng: th, offers: t.offers(), placed: h.placed, repeated: h.repeated}
	var id uuid.UUID
	var row bookedRow
	_, err = pgx.ForEachRow(rows, []any{&id, &row.activity, &row.sku, &row.user, &row.status}, func() error {
		walk.meet(id, row)
		return nil
	})
	walk.rest()
	return err
}

type bookedRow struct{ activity, sku, user, status string }

// answerWalk walks through the sorted answers as the rows come.
type answerWalk struct {
	*judgement
	throng           *throng
	offers           []offer
	placed, repeated []heardOrder // not met yet
}

func (t *answerWalk) meet(id uuid.UUID, row bookedRow) {
	t.placed = t.pass(t.placed, "202", id, row)
	t.repeated = t.pass(t.repeated, "200", id, row)
}

// pass takes what was said of one order off the list. What stands before it has no row.
func (t *answerWalk) pass(list []heardOrder, answer string, id uuid.UUID, row bookedRow) []heardOrder {
	for len(list) > 0 && bytes.Compare(list[0].id[:], id[:]) <= 0 {
		first := list[0]
		list = list[1:]
		if first.id != id {
			t.lost(first, answer)
			continue
		}
		wants := t.offers[t.throng.wants(first.buyer)]
		if row.user != buyerName(first.buyer) || row.activity != wants.activity || row.sku != wants.sku {
			t.violation("order %s was given to %s for %s of %s, and the ledger has %+v", id, buyerName(first.buyer),
				wants.sku, wants.activity, row)
		}
		if answer == "202" && (row.status == "rejected" || row.status == "held") {
			t.violation("order %s of %s was answered with 202 and is %s", id, row.user, row.status)
		}
	}
	return list
}

func (t *answerWalk) lost(o heardOrder, answer string) {
	t.violation("lost: %s got %s for order %s, and the ledger does not have it", buyerName(o.buyer), answer, o.id)
}

// rest is what no row came for.
func (t *answerWalk) rest() {
	for _, o := range t.placed {
		t.lost(o, "202")
	}
	for _, o := range t.repeated {
		t.lost(o, "200")
	}
}
