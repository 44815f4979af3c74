package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// cpuEvery is how often it is looked how busy the processors are.
	cpuEvery = 250 * time.Millisecond
	// cpuMost is the largest part of the buyers that is turned away: what keeps the
	// processors busy may be something else, and must not end the sale.
	cpuMost = 0.9
	// cpuGain is how much larger a part is turned away, look by look, for each
	// processor's share above the limit. It falls in the same way.
	cpuGain = 2
	// ticksASecond is USER_HZ, which Linux shows its times in everywhere.
	ticksASecond = 100
)

// CPU sheds load by how busy the processors are: those of the machine as a whole, or
// this process on those that it may use, whichever is more. Above the limit it turns a
// growing part of the buyers away, below it a shrinking one. Run owns the looking;
// everything else is safe for concurrent use. A nil CPU turns nobody away.
type CPU struct {
	limit float64 // 0 to 1
	look  func() (cpuTimes, error)
	last  cpuTimes
	shed  atomic.Uint32 // of a million buyers
}

// cpuTimes are seconds of processors since some moment in the past.
type cpuTimes struct {
	busy, all float64 // of the machine
	own       float64 // of this process
	at        time.Time
}

// OpenCPU takes the first look. percent is how busy the processors may be, 1 to 100.
func OpenCPU(percent int) (*CPU, error) {
	c := &CPU{limit: float64(percent) / 100, look: readCPU}
	var err error
	if c.last, err = c.look(); err != nil {
		return nil, fmt.Errorf("see how busy the processors are: %w; this needs Linux: without it, set limit.cpu to 0", err)
	}
	return c, nil
}

// Run looks again and again until ctx ends.
func (c *CPU) Run(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(cpuEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before := c.shed.Load()
		if err := c.again(); err != nil {
			logger.Warn("it cannot be seen how busy the processors are: nobody is turned away for it", "error", err)
		}
		switch now := c.shed.Load(); {
		case before == 0 && now > 0:
			logger.Warn("the processors are busier than limit.cpu: a part of the buyers is turned away")
		case before > 0 && now == 0:
			logger.Info("the processors have room again: all buyers are let in")
		}
	}
}

// again takes one look and sets the part that is turned away.
func (c *CPU) again() error {
	now, err := c.look()
	if err != nil {
		c.shed.Store(0)
		return err
	}
	part := float64(c.shed.Load())/1e6 + cpuGain*(c.last.until(now)-c.limit)
	c.last = now
	c.shed.Store(uint32(1e6 * min(max(part, 0), cpuMost)))
	return nil
}

// until is how busy the processors were between two looks, 0 to 1.
func (t cpuTimes) until(now cpuTimes) float64 {
	machine, own := 0.0, 0.0
	if all := now.all - t.all; all > 0 {
		machine = (now.busy - t.busy) / all
	}
	if took := now.at.Sub(t.at).Seconds(); took > 0 {
		own = (now.own - t.own) / took / float64(runtime.GOMAXPROCS(0)) // which a container's quota bounds
	}
	return min(max(machine, own, 0), 1)
}

// sheds says whether this buyer is one of those to turn away.
func (c *CPU) sheds() bool {
	if c == nil {
		return false
	}
	part := c.shed.Load()
	return part > 0 && rand.Uint32N(1e6) < part
}

// readCPU reads /proc/stat and /proc/self/stat (proc(5)).
func readCPU() (t cpuTimes, err error) {
	machine, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return t, err
	}
	t.at = time.Now()
	if t.busy, t.all, err = machineTimes(machine); err == nil {
		t.own, err = ownTime(self)
	}
	return t, err
}

// machineTimes reads "cpu  user nice system idle iowait irq softirq steal guest …" of
// which guest is in user already.
func machineTimes(stat []byte) (busy, all float64, err error) {
	line, _, _ := bytes.Cut(stat, []byte{'\n'})
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0, errors.New("/proc/stat does not begin with the times of all processors")
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		all += float64(ticks) / ticksASecond
		if i != 3 && i != 4 { // idle, and idle while a disk is waited for
			busy += float64(ticks) / ticksASecond
		}
	}
	return busy, all, nil
}

// ownTime reads utime and stime, the 14th and 15th of "pid (name) state …"; the name
// may have blanks and brackets.
func ownTime(stat []byte) (float64, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("/proc/self/stat is too short")
	}
	user, err := strconv.ParseUint(string(fields[11]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/stat: %w", err)
	}
	system, err := strconv.ParseUint(string(fields[12]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/stat: %w", err)
	}
	return float64(user+system) / ticksASecond, nil
}
