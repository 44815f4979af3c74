package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// pauseTimeout bounds the wait for a signalled process to stand still.
const pauseTimeout = 2 * time.Second

// pause stops a process and what it has forked. The signal reaches the threads of a
// process one after the other, and until the last has stopped it may still answer.
func (c *child) pause() error {
	c.signalFamily(syscall.SIGSTOP)
	for deadline := time.Now().Add(pauseTimeout); ; time.Sleep(time.Millisecond) {
		still := standsStill(c.pid())
		for _, pid := range descendants(c.pid()) {
			still = still && standsStill(pid)
		}
		if still {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stack: process %d (%s) does not stand still %s after SIGSTOP: see its state in ps", c.pid(), c.cmd.Path, pauseTimeout)
		}
	}
}

// standsStill looks at every thread. Systems without /proc are taken at their word.
func standsStill(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // fails only on a bad pattern
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		// The state follows the command's name, which is in brackets and may hold any.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if !strings.HasPrefix(rest, "T") && !strings.HasPrefix(rest, "t") && !strings.HasPrefix(rest, "Z") {
			return false
		}
	}
	return true
}
