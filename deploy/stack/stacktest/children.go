package stacktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// childrenTimeout is for children that have just been told to end.
const childrenTimeout = 5 * time.Second

// leftChildren fails if this process still has children. It cannot look on systems
// without /proc, and then says nothing.
func leftChildren() error {
	deadline := time.Now().Add(childrenTimeout)
	for {
		left := children()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("processes are left after the tests: " + strings.Join(left, "; "))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func children() []string {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // fails only on a bad pattern
	var found []string
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			line, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			found = append(found, fmt.Sprintf("%s %s", pid, strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return found
}
