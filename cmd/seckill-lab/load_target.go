package main

import (
	"context"
	"os"

	"seckill/consumer"
	"seckill/deploy/stack"
)

// target is a service under load, and what can be asked of it beside its buyers' address. What is not known is
// empty, and missing in the report.
type target struct {
	public     string   // base URL
	admins     []string // base URLs of every process
	token      string
	activities []string
	skus       []string // in each activity

	audit func(ctx context.Context, activity string) (consumer.Report, error) // nil: the service is asked

	namespace   string
	postgresURL string
	monitorURL  string         // of NATS
	pids        map[string]int // of the processes on this machine, by name
}

func (t *target) offers() []offer { return offersOf(t.activities, t.skus) }

// target is the stand, for a load on these sales.
func (s *stand) target(activities, skus []string) *target {
	t := &target{
		public: "http://" + s.serving.public, admins: []string{"http://" + s.serving.admin}, token: s.serving.token,
		activities: activities, skus: skus, namespace: "seckill",
		postgresURL: s.servers.PostgresURL(), monitorURL: s.servers.NATSMonitorURL(),
		pids: map[string]int{"serve": s.serving.process.Pid, "this sender": os.Getpid()},
	}
	for _, name := range stack.Names {
		t.pids[name] = s.servers.PID(name)
	}
	return t
}

// openAll creates the activities, with every SKU in each, a limit of one unit a buyer, and opens them.
func (s *service) openAll(ctx context.Context, t *target, units int64) error {
	for _, activity := range t.activities {
		if err := s.openSKUs(ctx, activity, "Load", t.skus, units, 1); err != nil {
			return err
		}
	}
	return nil
}
