package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"github.com/redis/go-redis/v9"

	"seckill/consumer"
)

// facts are what a reader has to know to repeat a measurement.
type facts struct {
	commit, machine, versions string
}

func readFacts(ctx context.Context, s *stand) (f facts, err error) {
	f.commit, f.machine = "unknown", fmt.Sprintf("%s, %d processors", runtime.GOARCH, runtime.NumCPU())
	build, _ := debug.ReadBuildInfo()
	if head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		f.commit = strings.TrimSpace(string(head))
		if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changes) > 0 {
			f.commit += ", with changes that are not committed"
		}
	}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		f.machine = machineWords(proc)
	}
	versions := []string{"Go " + strings.TrimPrefix(runtime.Version(), "go")}
	redisVersion, err := redisInfo(ctx, s, "server", "redis_version")
	if err != nil {
		return f, err
	}
	db, err := pgx.Connect(ctx, s.servers.PostgresURL())
	if err != nil {
		return f, fmt.Errorf("ask Postgres for its version: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	var postgresVersion string
	if err := db.QueryRow(ctx, `show server_version`).Scan(&postgresVersion); err != nil {
		return f, fmt.Errorf("ask Postgres for its version: %w", err)
	}
	versions = append(versions, "Redis "+redisVersion, "Postgres "+strings.Fields(postgresVersion)[0])
	for _, module := range build.Deps {
		switch module.Path {
		case "github.com/nats-io/nats-server/v2":
			versions = append(versions, "NATS "+module.Version)
		case "go.etcd.io/etcd/server/v3":
			versions = append(versions, "etcd "+module.Version)
		}
	}
	f.versions = strings.Join(versions, ", ")
	return f, nil
}

func machineWords(proc procfs.FS) string {
	words := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
		words[0] += " of " + cpus[0].ModelName
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotal != nil {
		words = append(words, fmt.Sprintf("%d GB", *memory.MemTotal>>20))
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		words = append(words, "Linux "+strings.TrimSpace(string(kernel)))
	}
	return strings.Join(words, ", ")
}

// redisInfo reads one field of INFO.
func redisInfo(ctx context.Context, s *stand, section, field string) (string, error) {
	options, err := redis.ParseURL(s.servers.RedisURL())
	if err != nil {
		return "", err
	}
	client := redis.NewClient(options)
	defer client.Close()
	info, err := client.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis for %s: %w", field, err)
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("ask Redis for %s: it does not say", field)
}

// redisMemory is what Redis uses for its data, in bytes, without the buffers of its clients.
func redisMemory(ctx context.Context, s *stand) (used int64, err error) {
	text, err := redisInfo(ctx, s, "memory", "used_memory_dataset")
	if err == nil {
		_, err = fmt.Sscan(text, &used)
	}
	return used, err
}

// residentMemory is what a process uses now and has used at most, in bytes.
func residentMemory(pid int) (now, most int64, err error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return int64(status.VmRSS), int64(status.VmHWM), nil
}

// auditByCommand audits with "seckill audit", which takes the time that a long log needs.
func auditByCommand(program string, env []string) func(context.Context, string) (consumer.Report, error) {
	return func(ctx context.Context, activity string) (r consumer.Report, err error) {
		cmd := exec.CommandContext(ctx, program, "audit", "--activity", activity, "--wait", restWait.String(), "--output", "json")
		cmd.Env = append(withoutOurs(os.Environ()), env...)
		var words bytes.Buffer
		cmd.Stderr = &words
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 3 {
			err = nil // the report says what does not hold
		}
		if err != nil {
			return r, fmt.Errorf("seckill audit: %w: %s", err, words.String())
		}
		return r, json.Unmarshal(out, &r)
	}
}
