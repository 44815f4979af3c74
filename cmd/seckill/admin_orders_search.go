package main

import (
	"context"
	"errors"

	"seckill/admission"
	"seckill/consumer"
)

type searchInput struct {
	ID       string `query:"id" doc:"the order of this id"`
	Activity string `query:"activity" doc:"orders of this activity"`
	User     string `query:"user" maxLength:"128" doc:"orders of this buyer, of all activities or of the one that is given"`
	Status   string `query:"status" enum:"accepted,held,pending_payment,confirmed,paid,cancelled,expired,rejected" doc:"accepted: what waits at the gate of the activity, oldest first"`
	After    string `query:"after" format:"uuid" doc:"next of the page before"`
	Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type searchOutput struct {
	Body struct {
		Orders []orderLine `json:"orders"`
		Next   string      `json:"next,omitempty"`
	}
}

func (a *orderAPI) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	rows, err := a.find(ctx, in)
	if err != nil {
		return nil, admission.AsProblem(err)
	}
	out := &searchOutput{}
	out.Body.Orders = []orderLine{}
	for _, row := range rows {
		out.Body.Orders = append(out.Body.Orders, viewOrder(row))
	}
	if len(rows) == in.Limit {
		out.Body.Next = rows[len(rows)-1].ID
	}
	return out, nil
}

func (a *orderAPI) find(ctx context.Context, in *searchInput) ([]admission.Row, error) {
	s := a.node.stores
	status := admission.Status(in.Status)
	switch {
	case in.ID != "" && !admission.ValidID(in.ID):
		return nil, nil
	case in.ID != "":
		row, err := s.findOrder(ctx, in.ID)
		if errors.Is(err, admission.ErrNoOrder) {
			return nil, nil
		}
		return []admission.Row{row}, err
	case in.Activity == "" && (in.User == "" || status == admission.Accepted):
		return nil, invalid("give id, or activity, or user (which status accepted needs an activity beside)")
	case status == admission.Accepted:
		return s.undecidedWhere(ctx, consumer.OrderFilter{Activity: in.Activity, User: in.User, After: in.After, Limit: in.Limit})
	}
	if in.Activity != "" {
		if _, err := s.ledger.Activity(ctx, in.Activity); err != nil {
			return nil, err
		}
	}
	return s.ledger.SearchOrders(ctx, consumer.OrderSearch{
		Activity: in.Activity, User: in.User, Status: status, Before: in.After, Limit: in.Limit,
	})
}
