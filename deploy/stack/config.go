package stack

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Config says where and how a stack runs. Only Dir and Lab have to be set.
type Config struct {
	// Dir holds data, logs and pid files. It is created if absent; data found in
	// it is used again.
	Dir string
	// Lab is the path of the seckill-lab program, which runs NATS and etcd and
	// guards the children.
	Lab string
	// Scratch makes the stack delete Dir when it is closed or when its process dies.
	Scratch bool
	// StartTimeout bounds each start of a server, until it answers. Default 30s.
	StartTimeout time.Duration
	// StopTimeout is what a server gets for an orderly end before it is killed.
	// Default 10s.
	StopTimeout time.Duration
	// Log receives starts, ends and deaths. Default: nothing is logged.
	Log *slog.Logger
}

func (c Config) complete() (Config, error) {
	if c.Dir == "" || c.Lab == "" {
		return c, errors.New("stack: Config.Dir and Config.Lab must be set")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("stack: folder %s: %w", c.Dir, err)
	}
	c.Dir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, fmt.Errorf("stack: create the folder of the stack: %w", err)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 30 * time.Second
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// folderLock makes sure that one folder is used by one stack at a time. Both locks
// end with the processes that hold them, however these end.
type folderLock struct {
	opener *os.File // held by this process only
	guard  *os.File // inherited by the guard: held until the leftovers of a stack are gone
}

// lockFolder fails if a stack runs in the folder. It waits for a guard that still
// tidies up after a stack whose process has died.
func lockFolder(dir string) (*folderLock, error) {
	opener, err := lockFile(filepath.Join(dir, "stack.lock"), 0)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("stack: another stack runs in %s: stop it, or use another folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("stack: lock the folder: %w", err)
	}
	guard, err := lockFile(filepath.Join(dir, "guard.lock"), 2*guardGrace)
	if err != nil {
		_ = opener.Close()
		return nil, fmt.Errorf("stack: wait until the leftovers of the last stack in %s are gone: %w", dir, err)
	}
	return &folderLock{opener, guard}, nil
}

func (l *folderLock) release() error {
	return errors.Join(l.guard.Close(), l.opener.Close())
}

func lockFile(path string, patience time.Duration) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if time.Now().After(deadline) {
			_ = file.Close()
			return nil, err
		}
		time.Sleep(probeEvery)
	}
}
