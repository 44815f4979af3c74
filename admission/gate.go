package admission

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var scripts embed.FS

var (
	reserveScript = script("reserve")
	settleScript  = script("settle")
	closeScript   = script("close")
	fillScript    = script("fill")
	openScript    = script("open")
	viewScript    = script("view")
)

// script reads a file of lua/, with what all of them share before it; a missing
// one is a mistake in this build.
func script(name string) *redis.Script {
	var text string
	for _, file := range []string{"gate", name} {
		part, err := scripts.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(part)
	}
	return redis.NewScript(text)
}

// gateTimeout bounds one script run, the client's retries included.
const gateTimeout = time.Second

// Gate answers "may this buyer have a unit now?" for all activities of one
// namespace. It is an estimate kept in Redis: what it grants is an order only
// when the ledger says so. Safe for concurrent use.
//
// Every script is idempotent, because a lost reply is resent, and acts only under
// the epoch it is given; an absent, closed or differently numbered gate changes
// nothing and answers NotReadyError.
type Gate struct {
	redis     redis.UniversalClient
	namespace string
}

// NewGate returns the gate of a namespace. The client must bound its calls by
// their contexts (ContextTimeoutEnabled).
func NewGate(client redis.UniversalClient, namespace string) *Gate {
	return &Gate{redis: client, namespace: namespace}
}

// NotReadyError says that the gate of an activity is absent, being rebuilt, or of
// another epoch than the caller's. Nothing was changed.
type NotReadyError struct {
	Activity string
	Epoch    string // the gate's; empty: there is no gate
	State    string
}

func (e *NotReadyError) Error() string {
	if e.Epoch == "" {
		return fmt.Sprintf("activity %s has no gate: it must be rebuilt from the ledger", e.Activity)
	}
	return fmt.Sprintf("gate of activity %s is %s under epoch %s: ask again after its rebuild", e.Activity, e.State, e.Epoch)
}

// keys names what belongs to one gate. They share a hash tag, so that a script
// finds them on one node of a Redis Cluster.
func (g *Gate) key(activity, what string) string {
	return g.namespace + ":{" + activity + "/0}:" + what
}

func (g *Gate) keys(activity string, what ...string) []string {
	keys := make([]string, len(what))
	for i, w := range what {
		keys[i] = g.key(activity, w)
	}
	return keys
}

// run executes a script and returns its reply, whose first element is a word.
func (g *Gate) run(ctx context.Context, s *redis.Script, keys []string, args []any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	reply, err := s.Run(ctx, g.redis, keys, args...).Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		return nil, errors.New("empty reply of a gate script")
	}
	return reply, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Verdict is what the gate said of one order.
type Verdict struct {
	Kind        VerdictKind
	Reservation Reservation // of VerdictReserved and VerdictKnown
	Orders      []string    // of VerdictLimit: the buyer's charged orders, newest first, at most 32
}

// VerdictKind is the gate's answer in a word.
type VerdictKind uint8

// The answers of the gate.
const (
	VerdictReserved VerdictKind = iota + 1
	VerdictKnown
	VerdictLimit
	VerdictSoldOut
	VerdictNoSKU
	VerdictBacklog
	VerdictNotStarted
	VerdictEnded
	VerdictPaused
)

// plain are the verdicts that a word of the gate says completely.
var plain = map[string]VerdictKind{
	"sold-out": VerdictSoldOut, "no-sku": VerdictNoSKU, "backlog": VerdictBacklog,
	"not-started": VerdictNotStarted, "ended": VerdictEnded, "paused": VerdictPaused,
}

// Reserve asks for every order of one activity in one run of the script, and
// returns a verdict for each. An error other than NotReadyError leaves the
// outcome unknown: the orders may be reserved.
func (g *Gate) Reserve(ctx context.Context, activity string, epoch int64, backlog int, orders []Order) ([]Verdict, error) {
	args := make([]any, 0, 2+5*len(orders))
	args = append(args, epoch, backlog)
	for i := range orders {
		o := &orders[i]
		args = append(args, GateID(o.ID), o.User, o.SKU, o.Quantity, o.Key)
	}
	keys := g.keys(activity, "gate", "stock", "orders", "buyers", "keys", "pending")
	reply, err := g.run(ctx, reserveScript, keys, args)
	if err != nil {
		return nil, fmt.Errorf("reserve %d orders of activity %s at the gate: %w", len(orders), activity, err)
	}
	if text(reply[0]) != "open" {
		return nil, notReady(activity, reply)
	}
	if len(reply) != len(orders)+1 {
		return nil, fmt.Errorf("reserve %d orders of activity %s at the gate: %d answers", len(orders), activity, len(reply)-1)
	}
	verdicts := make([]Verdict, len(orders))
	for i := range orders {
		if verdicts[i], err = readVerdict(orders[i], text(reply[i+1])); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

func readVerdict(asked Order, reply string) (Verdict, error) {
	word, rest, _ := strings.Cut(reply, " ")
	switch word {
	case "ok":
		at, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return Verdict{}, fmt.Errorf("time %q in a reply of the gate: %w", rest, err)
		}
		asked.At = time.UnixMilli(at).UTC()
		return Verdict{Kind: VerdictReserved, Reservation: Reservation{Order: asked, State: Pending}}, nil
	case "known":
		id, record, _ := strings.Cut(rest, " ")
		id = FromGateID(id)
		r, err := decodeReservation(id, record)
		kind := VerdictKnown
		// A resend after a lost reply finds what the first run did.
		if id == asked.ID && r.State == Pending {
			kind = VerdictReserved
		}
		return Verdict{Kind: kind, Reservation: r}, err
	case "limit":
		return Verdict{Kind: VerdictLimit, Orders: fromGateIDs(strings.Fields(rest))}, nil
	}
	if kind, ok := plain[word]; ok {
		return Verdict{Kind: kind}, nil
	}
	return Verdict{}, fmt.Errorf("the gate answered %q to order %s", reply, asked.ID)
}

func notReady(activity string, reply []any) error {
	e := &NotReadyError{Activity: activity}
	if len(reply) > 1 {
		e.Epoch = text(reply[1])
	}
	if len(reply) > 2 {
		e.State = text(reply[2])
	}
	return e
}

// Outcome is what the ledger decided about one order, for the gate.
type Outcome struct {
	ID   string
	Live bool // else the reservation is released
}

// Settle tells the gate outcomes of one activity, as read from the ledger under
// epoch. An order that the gate does not know, or has released, changes nothing.
func (g *Gate) Settle(ctx context.Context, activity string, epoch int64, outcomes []Outcome) error {
	for len(outcomes) > 0 {
		n := min(len(outcomes), MaxBatchOrders)
		args := make([]any, 0, 1+2*n)
		args = append(args, epoch)
		for _, o := range outcomes[:n] {
			word := "dead"
			if o.Live {
				word = "live"
			}
			args = append(args, GateID(o.ID), word)
		}
		keys := g.keys(activity, "gate", "stock", "orders", "buyers", "pending")
		reply, err := g.run(ctx, settleScript, keys, args)
		if err != nil {
			return fmt.Errorf("tell the gate %d outcomes of activity %s: %w", n, activity, err)
		}
		if text(reply[0]) != "open" {
			return notReady(activity, reply)
		}
		outcomes = outcomes[n:]
	}
	return nil
}
