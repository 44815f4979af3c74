//go:build linux || darwin

package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeSegment deletes the System V shared memory that marks a data folder as in
// use. A Postgres that ends in order, or starts again on the same folder, deletes it
// itself; one that was killed for good leaves it in the kernel until reboot. Its id
// is the second number in line 7 of postmaster.pid.
func removeSegment(data string) error {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil // ended in order, or never started
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return nil
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return nil
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return nil
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EIDRM) {
		return nil
	}
	return fmt.Errorf("stack: remove the shared memory of the killed postgres: %w: remove it with: ipcrm -m %d", err, id)
}
