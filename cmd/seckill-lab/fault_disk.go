package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"seckill/deploy/stack"
)

// smallDisk is the size of the file system that NATS gets for a fault of its disk.
const smallDisk = 64 << 20

// mountSmall mounts a small file system in memory at dir, which needs root. What it returns takes it away again;
// so does the death of this process, through a shell that waits for the end of its input.
func mountSmall(dir string) (unmount func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the mount point: %w", err)
	}
	keeper := exec.Command("/bin/sh", "-c", `read -r end; umount -l -- "$1" 2>/dev/null; :`, "sh", dir)
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	line, err := keeper.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe to the keeper of the mount: %w", err)
	}
	if err := keeper.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of the mount: %w", err)
	}
	dismiss := func() {
		_ = line.Close()
		_ = keeper.Wait()
	}
	if err := mountTmpfs(dir, smallDisk); err != nil {
		dismiss()
		return nil, err
	}
	return func() error {
		dismiss()
		if isMount(dir) {
			return fmt.Errorf("%s is still mounted: umount it", dir)
		}
		return nil
	}, nil
}

// isMount compares the device of a folder with its parent's.
func isMount(dir string) bool {
	var here, above unix.Stat_t
	return unix.Stat(dir, &here) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && here.Dev != above.Dev
}

// diskFull fills the file system of NATS to the last byte. Healing makes room and restarts NATS, which turns its
// JetStream off when a write fails.
func diskFull() fault {
	return fault{
		about: "the disk of NATS is full; healed by making room and restarting NATS", small: true, lasts: 3 * time.Second,
		strike: func(_ context.Context, f *field) (string, error) {
			dir := filepath.Join(f.servers.Dir(), stack.NATS)
			f.ballast = filepath.Join(dir, "ballast")
			written, err := fill(f.ballast)
			if !errors.Is(err, syscall.ENOSPC) {
				return "", fmt.Errorf("fill the disk of NATS: %d bytes went in and the end was %v, not ENOSPC", written, err)
			}
			return fmt.Sprintf("%d bytes of ballast, then ENOSPC", written), nil
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			var fs unix.Statfs_t
			if err := unix.Statfs(filepath.Dir(f.ballast), &fs); err != nil {
				return "", fmt.Errorf("measure the disk of NATS: %w", err)
			}
			if err := os.Remove(f.ballast); err != nil {
				return "", fmt.Errorf("make room: %w", err)
			}
			return fmt.Sprintf("%d bytes free at the end of it", fs.Bavail*uint64(fs.Bsize)), f.servers.Restart(ctx, stack.NATS)
		},
	}
}

// fill writes until there is no room for one more byte.
func fill(path string) (written int64, err error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; size /= 4 {
		chunk := make([]byte, size)
		for {
			n, err := file.Write(chunk)
			written += int64(n)
			if err == nil && n < size {
				err = io.ErrShortWrite
			}
			if errors.Is(err, syscall.ENOSPC) && size > 1 {
				break
			}
			if err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// streamFull lowers the limit of the order log to what it holds.
func streamFull() fault {
	var was int64
	setLimit := func(ctx context.Context, f *field, limit func(*jetstream.StreamInfo) int64) (state string, err error) {
		nc, err := f.nats()
		if err != nil {
			return "", err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return "", fmt.Errorf("open JetStream: %w", err)
		}
		s, err := js.Stream(ctx, f.stream())
		if err != nil {
			return "", fmt.Errorf("read the order log: %w", err)
		}
		config := s.CachedInfo().Config
		config.MaxBytes = limit(s.CachedInfo())
		if s, err = js.UpdateStream(ctx, config); err != nil {
			return "", fmt.Errorf("set the limit of the order log to %d bytes: %w", config.MaxBytes, err)
		}
		return fmt.Sprintf("%d bytes of at most %d", s.CachedInfo().State.Bytes, config.MaxBytes), nil
	}
	return fault{
		about: "the order log is at its limit", lasts: 3 * time.Second,
		strike: func(ctx context.Context, f *field) (string, error) {
			return setLimit(ctx, f, func(s *jetstream.StreamInfo) int64 {
				was = s.Config.MaxBytes
				return int64(s.State.Bytes)
			})
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			_, err := setLimit(ctx, f, func(*jetstream.StreamInfo) int64 { return was })
			return "", err
		},
	}
}
