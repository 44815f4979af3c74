package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// evidence of a failure: what the processes and servers said, what the stores hold, what the buyers were told,
// and the command that runs it again.
type evidence struct {
	f          *field
	activities []string
	crowds     []*buyers
	command    string
	findings   []string
}

const evidenceTime = 30 * time.Second

// keep writes everything into a new folder below dir. What cannot be read (a server may be down) is noted there
// instead; only a folder that cannot be written is an error.
func (e *evidence) keep(ctx context.Context, dir, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evidenceTime)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a folder for evidence: %w", err)
	}
	to, err := os.MkdirTemp(dir, name+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder for evidence: %w", err)
	}
	note := strings.Join(e.findings, "\n") + "\n"
	for what, err := range map[string]error{
		"logs": e.keepLogs(to), "ledger": e.keepLedger(ctx, to), "gate": e.keepGate(ctx, to),
		"log": e.keepLog(ctx, to), "answers": e.keepAnswers(to),
	} {
		if err != nil {
			note += fmt.Sprintf("not kept, or not all of it: %s: %v\n", what, err)
		}
	}
	err = errors.Join(os.WriteFile(filepath.Join(to, "findings.txt"), []byte(note), 0o644),
		os.WriteFile(filepath.Join(to, "again.sh"), []byte(e.command+"\n"), 0o644))
	if err != nil {
		return to, fmt.Errorf("keep evidence: %w", err)
	}
	return to, nil
}

func (e *evidence) keepLogs(to string) error {
	var errs []error
	for _, dir := range []string{e.f.dir, e.f.servers.Dir()} {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // fails only on a bad pattern
		for _, log := range logs {
			text, err := os.ReadFile(log)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(log)), text, 0o644)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (e *evidence) keepLedger(ctx context.Context, to string) error {
	db, err := e.f.ledger(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	var errs []error
	for _, table := range []string{"orders", "skus", "activities", "partitions"} {
		file, err := os.Create(filepath.Join(to, table+".csv"))
		if err != nil {
			return err
		}
		_, err = db.PgConn().CopyTo(ctx, file, `copy `+e.f.table(table)+` to stdout with csv header`)
		errs = append(errs, err, file.Close())
	}
	return errors.Join(errs...)
}

func (e *evidence) keepGate(ctx context.Context, to string) error {
	client := e.f.redis()
	defer client.Close()
	all := map[string]any{}
	for _, activity := range e.activities {
		for _, name := range gateKeys {
			key := e.f.gateKey(activity, name)
			if name == "pending" {
				list, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
				all[key] = list
				continue
			}
			hash, err := client.HGetAll(ctx, key).Result()
			if err != nil {
				return err
			}
			all[key] = hash
		}
	}
	return writeJSON(filepath.Join(to, "gate.json"), all)
}

func (e *evidence) keepLog(ctx context.Context, to string) error {
	return e.f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
		file, err := os.Create(filepath.Join(to, "log.jsonl"))
		if err != nil {
			return err
		}
		defer file.Close()
		for seq := s.CachedInfo().State.FirstSeq; seq > 0 && seq <= s.CachedInfo().State.LastSeq; seq++ {
			m, err := s.GetMsg(ctx, seq)
			if err != nil {
				continue // trimmed, or the time is over: the state below says what there was
			}
			fmt.Fprintf(file, "{\"seq\":%d,\"time\":%q,\"data\":%s}\n", m.Sequence, m.Time.Format(time.RFC3339Nano), m.Data)
		}
		state := map[string]any{"stream": s.CachedInfo()}
		var consumers []*jetstream.ConsumerInfo
		for info := range s.ListConsumers(ctx).Info() {
			consumers = append(consumers, info)
		}
		state["consumers"] = consumers
		return writeJSON(filepath.Join(to, "stream.json"), state)
	})
}

func (e *evidence) keepAnswers(to string) error {
	all := map[string]any{}
	for i, c := range e.crowds {
		c.mu.Lock()
		all[e.activities[i]] = map[string]any{"202": c.admitted, "200": c.repeated, "kinds": c.kinds, "faults": c.faults}
		c.mu.Unlock()
	}
	return writeJSON(filepath.Join(to, "answers.json"), all)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
