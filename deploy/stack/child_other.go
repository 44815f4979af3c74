//go:build !linux

package stack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing where the kernel has no parent-death signal; the guard
// process does the work there.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// parents maps each process to its parent.
func parents() map[int]int {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	found := map[int]int{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		pid, pidErr := strconv.Atoi(fields[0])
		parent, parentErr := strconv.Atoi(fields[1])
		if pidErr == nil && parentErr == nil {
			found[pid] = parent
		}
	}
	return found
}
