package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
	"seckill/consumer"
)

const (
	// mostGrouped bounds how many dead letters are grouped, and mostGroups into how many.
	mostGrouped = 10_000
	mostGroups  = 200
	// mostRuled is how many dead letters are decided by one request, and how many ids a
	// group names.
	mostRuled = 100
)

// dlqAPI is the operators' side of dead letters over HTTP; seckill dlq is the other.
type dlqAPI struct {
	node *node
}

// numberedLetter is a dead letter with its number, after which the next page begins.
type numberedLetter struct {
	ID string `json:"id"`
	consumer.DeadLetter
	Status admission.Status `json:"status,omitempty" doc:"of the order's row now"`
	Number uint64           `json:"number"`
}

// letterGroup is dead letters that look alike: numbers and ids in the detail are not
// told apart.
type letterGroup struct {
	Activity string    `json:"activity"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail"`
	Count    int       `json:"count"`
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	IDs      []string  `json:"ids" doc:"the first 100"`
}

type lettersInput struct {
	Activity string `query:"activity"`
	After    uint64 `query:"after" doc:"next of the page before"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type lettersOutput struct {
	Body struct {
		Groups  []*letterGroup   `json:"groups"`
		Grouped int              `json:"grouped" doc:"how many letters the groups count, from the oldest"`
		Letters []numberedLetter `json:"letters" doc:"oldest first"`
		Total   uint64           `json:"total"`
		Next    uint64           `json:"next,omitempty"`
	}
}

func (a *dlqAPI) list(ctx context.Context, in *lettersInput) (*lettersOutput, error) {
	out := &lettersOutput{}
	out.Body.Groups, out.Body.Letters = []*letterGroup{}, []numberedLetter{}
	dead := a.node.stores.dead(a.node.config)
	last, err := dead.Last(ctx)
	if err == nil && last > 0 {
		out.Body.Total, err = dead.Count(ctx, in.Activity)
	}
	if err == nil && last > 0 {
		err = a.read(ctx, dead, in, last, out)
	}
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	return out, nil
}

// read fills in the page, and the groups.
func (a *dlqAPI) read(ctx context.Context, dead *consumer.DeadLetters, in *lettersInput, last uint64, out *lettersOutput) error {
	groups := map[[3]string]*letterGroup{}
	err := dead.Read(ctx, in.Activity, 1, last, func(page []consumer.Letter, _ uint64) error {
		for _, l := range page {
			if out.Body.Grouped == mostGrouped {
				return errEnough
			}
			out.Body.Grouped++
			out.group(groups, l)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	err = dead.Read(ctx, in.Activity, in.After+1, last, func(page []consumer.Letter, _ uint64) error {
		page = page[:min(len(page), in.Limit-len(out.Body.Letters))]
		lines, err := a.node.stores.withStatus(ctx, page)
		if err != nil {
			return err
		}
		for i, line := range lines {
			out.Body.Letters = append(out.Body.Letters, numberedLetter{line.ID, line.DeadLetter, line.Status, page[i].Number})
		}
		if len(out.Body.Letters) == in.Limit {
			out.Body.Next = page[len(page)-1].Number
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// particulars are what tells one failure of a kind from another.
var particulars = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+`)

func (o *lettersOutput) group(groups map[[3]string]*letterGroup, l consumer.Letter) {
	key := groupOf(l)
	g := groups[key]
	if g == nil {
		if len(groups) == mostGroups {
			return // the letters themselves are all listed
		}
		g = &letterGroup{Activity: l.Activity, Reason: l.Reason, Detail: key[2], FirstAt: l.At}
		groups[key] = g
		o.Body.Groups = append(o.Body.Groups, g)
	}
	g.Count, g.LastAt = g.Count+1, l.At
	if len(g.IDs) < mostRuled {
		g.IDs = append(g.IDs, l.ID())
	}
}

type rulingInput struct {
	Body struct {
		IDs    []string     `json:"ids,omitempty" minItems:"1" maxItems:"100" doc:"of orders, or letter-N"`
		Group  *rulingGroup `json:"group,omitempty" doc:"instead of ids: all that look alike, a piece at a time"`
		Reason string       `json:"reason" minLength:"1" maxLength:"500" doc:"for the activity log"`
	}
}

type failedRuling struct {
	ID     string `json:"id"`
	Detail string `json:"detail"`
}

type rulingOutput struct {
	Body struct {
		Letters []consumer.Ruling `json:"letters"`
		Failed  []failedRuling    `json:"failed" doc:"those that stay dead letters, and why"`
		Next    uint64            `json:"next,omitempty" doc:"of a group: after of its next piece; absent: it was the last"`
	}
}

// by decides letters one after another, and goes on past one that fails.
func (a *dlqAPI) by(rule func(*consumer.Desk, context.Context, string) (consumer.Ruling, error)) func(context.Context, *rulingInput) (*rulingOutput, error) {
	return func(ctx context.Context, in *rulingInput) (*rulingOutput, error) {
		if strings.TrimSpace(in.Body.Reason) == "" {
			return nil, invalid("reason is empty: say why, for the activity log")
		}
		if (len(in.Body.IDs) == 0) == (in.Body.Group == nil) {
			return nil, invalid("give either ids or a group")
		}
		out, ids := &rulingOutput{}, in.Body.IDs
		if in.Body.Group != nil {
			var err error
			if ids, out.Body.Next, err = in.Body.Group.piece(ctx, a.node.stores.dead(a.node.config)); err != nil {
				return nil, admission.AsProblem(err)
			}
		}
		out.Body.Letters, out.Body.Failed = []consumer.Ruling{}, []failedRuling{}
		desk := a.node.stores.desk(a.node.logger, a.node.config)
		for _, id := range ids {
			ruling, err := ruleOne(onAdminAPI(ctx, in.Body.Reason), desk, id, rule)
			if err != nil {
				out.Body.Failed = append(out.Body.Failed, failedRuling{id, oneLine(err.Error())})
				continue
			}
			out.Body.Letters = append(out.Body.Letters, ruling)
		}
		return out, nil
	}
}

// ruleOne decides one dead letter.
func ruleOne(
	ctx context.Context, desk *consumer.Desk, id string,
	rule func(*consumer.Desk, context.Context, string) (consumer.Ruling, error),
) (consumer.Ruling, error) {
	if !admission.ValidID(id) && !consumer.IsLetterID(id) {
		return consumer.Ruling{}, fmt.Errorf("%q is neither an order id (a UUID in lower case) nor letter-N", id)
	}
	return rule(desk, ctx, id)
}

func (a *dlqAPI) register(api huma.API) {
	errors := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable}
	huma.Register(api, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/admin/v1/dlq",
		Summary: "Dead letters, and how many look alike", Errors: errors,
	}, a.list)
	huma.Register(api, huma.Operation{
		OperationID: "count-dead-letters", Method: http.MethodGet, Path: "/admin/v1/dlq/group",
		Summary: "How many dead letters look alike, before all of them are decided", Errors: errors,
	}, a.count)
	huma.Register(api, huma.Operation{
		OperationID: "replay-dead-letters", Method: http.MethodPost, Path: "/admin/v1/dlq/replay",
		Summary: "Decide held orders now, by limit and stock", Errors: errors,
	}, a.by((*consumer.Desk).Replay))
	huma.Register(api, huma.Operation{
		OperationID: "drop-dead-letters", Method: http.MethodPost, Path: "/admin/v1/dlq/drop",
		Summary: "Reject held orders for good; their units can be sold again", Errors: errors,
	}, a.by((*consumer.Desk).Drop))
}
