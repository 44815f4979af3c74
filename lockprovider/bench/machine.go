package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine says what a run was made on: the commit, the processor, the servers, and what
// else the machine had to do when the run began.
func machine(ctx context.Context) string {
	return fmt.Sprintf("Commit %s. %s, %d cores, %s/%s, %s, load average %s at the start. %s.",
		commit(ctx), processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load(),
		orUnknown(said(ctx, "redis-server", "--version"), "Redis"))
}

// commit names the checkout, and whether it has changes of its own.
func commit(ctx context.Context) string {
	c := orUnknown(said(ctx, "git", "rev-parse", "--short=12", "HEAD"), "commit")
	if said(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", "..", ":!RESULTS.md") != "" {
		c += " with changes"
	}
	return c
}

// processor and load are known where /proc is.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(text), "model name")
	model, _, _ = strings.Cut(model, "\n")
	return orUnknown(strings.Trim(model, "\t :"), "processor")
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return orUnknown(first, "load")
}

// said is the first line that a program says; "" if there is none.
func said(ctx context.Context, program string, args ...string) string {
	out, _ := exec.CommandContext(ctx, program, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	line, _, _ = strings.Cut(line, " sha=")
	return strings.TrimSpace(line)
}

func orUnknown(s, what string) string {
	if s == "" {
		return what + " unknown"
	}
	return s
}
