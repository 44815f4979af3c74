package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Server tells which Redis keeps the gate, and which line of its data: a restart,
// a failover or a restored copy shows another identity.
func (g *Gate) Server(ctx context.Context, activity string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var client redis.Cmdable = g.redis
	if cluster, ok := g.redis.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, g.key(activity, "gate"))
		if err != nil {
			return "", fmt.Errorf("find the Redis that keeps the gate of activity %s: %w", activity, err)
		}
		client = node
	}
	var id []string
	for _, section := range []string{"server", "replication"} {
		info, err := client.Info(ctx, section).Result()
		if err != nil {
			return "", fmt.Errorf("ask Redis for its identity: %w", err)
		}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "run_id" || name == "master_replid" {
				id = append(id, value)
			}
		}
	}
	return strings.Join(id, "/"), nil
}

// Close closes the gate for rebuild n and creates it if it is absent;
// ErrSuperseded if a newer rebuild has been there.
func (g *Gate) Close(ctx context.Context, activity string, n int64) error {
	return g.step(ctx, "close", activity, closeScript, []string{"gate"}, []any{n})
}

// Fill writes the snapshot into the gate that was closed under n, in chunks.
func (g *Gate) Fill(ctx context.Context, n int64, s Snapshot) error {
	keys := []string{"gate", "stock", "orders", "buyers", "keys", "pending"}
	charged := map[string]int64{}
	for _, row := range s.Rows {
		if row.Status == Held {
			charged[row.SKU] += row.Quantity
		}
	}
	args := []any{n, 1, len(s.Activity.SKUs)}
	for _, sku := range s.Activity.SKUs {
		// May be negative: a debt, which cancelled units pay off first.
		args = append(args, sku.ID, sku.Stock-charged[sku.ID], sku.LimitPerUser, sku.Total, sku.Version)
	}
	rows := s.Rows
	for {
		chunk := rows[:min(len(rows), fillChunk)]
		rows = rows[len(chunk):]
		for _, row := range chunk {
			args = append(args, GateID(row.ID), recordOf(row).encode())
		}
		if err := g.step(ctx, "fill", s.Activity.ID, fillScript, keys, args); err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		args = []any{n, 0, 0}
	}
}

// recordOf is the reservation that a decided order leaves in a rebuilt gate.
func recordOf(row Row) Reservation {
	state := Released
	if row.Status.Live() || row.Status == Held {
		state = Charged
	}
	return Reservation{
		Order: Order{ID: row.ID, User: row.User, SKU: row.SKU, Quantity: row.Quantity, Key: row.Key, At: row.CreatedAt},
		State: state,
	}
}

// Open opens the gate that was filled under n.
func (g *Gate) Open(ctx context.Context, n int64, s Snapshot, server string) error {
	args := append([]any{n, len(s.Rows)}, saleArgs(s.Activity)...)
	return g.step(ctx, "open", s.Activity.ID, openScript, []string{"gate", "orders"}, append(args, server))
}

func (g *Gate) step(ctx context.Context, name, activity string, s *redis.Script, keys []string, args []any) error {
	reply, err := g.run(ctx, s, g.keys(activity, keys...), args)
	if err != nil {
		return fmt.Errorf("%s the gate of activity %s: %w", name, activity, err)
	}
	if text(reply[0]) == "refused" {
		return fmt.Errorf("%s the gate of activity %s, which is at epoch %s: %w", name, activity, text(reply[1]), ErrSuperseded)
	}
	return nil
}
