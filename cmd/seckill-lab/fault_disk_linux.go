package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func mountTmpfs(dir string, size int64) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=755", size)); err != nil {
		return fmt.Errorf("mount a small file system at %s: %w (it needs root)", dir, err)
	}
	return nil
}
