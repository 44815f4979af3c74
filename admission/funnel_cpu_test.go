package admission

import (
	"errors"
	"testing"
	"time"
)

// processors are as busy as a test says.
type processors struct {
	cpuTimes
	busyFor float64 // of each second
	err     error
}

func (p *processors) look() (cpuTimes, error) {
	const took = 0.25
	p.all += took
	p.busy += took * p.busyFor
	p.at = p.at.Add(250 * time.Millisecond)
	return p.cpuTimes, p.err
}

// The busier the processors, the more are turned away, up to nine of ten; when they
// have room again, nobody is. Red if the part does not fall, or has no end.
func TestCPUSheds(t *testing.T) {
	t.Parallel()
	p := &processors{}
	c := &CPU{limit: 0.8, look: p.look}
	shed := func(looks int, busy float64) int {
		t.Helper()
		p.busyFor = busy
		for range looks {
			if err := c.again(); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for range 10_000 {
			if c.sheds() {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		looks       int
		busy        float64
		least, most int
	}{
		{100, 0.8, 0, 0},
		{1, 0.9, 1500, 2500},  // a tenth above: a fifth
		{1, 0.8, 1500, 2500},  // it suffices
		{1, 0.85, 2500, 3500}, // and a little more
		{100, 1, 8500, 9500},  // never all
		{1, 0.5, 2500, 3500},  // room
		{1, 0.5, 0, 0},        // more
		{1, 1.0 / 3, 0, 0},    // and no credit for it
		{1, 0.9, 1500, 2500},  // as at first
		{1, 0, 0, 0},
	} {
		if n := shed(step.looks, step.busy); n < step.least || n > step.most {
			t.Errorf("after %d looks at %v busy, %d of 10,000 are turned away, want %d to %d", step.looks, step.busy, n, step.least, step.most)
		}
	}
	p.err = errors.New("gone")
	c.shed.Store(500_000)
	if err := c.again(); err == nil || c.sheds() {
		t.Error("what cannot be seen turns buyers away")
	}
	var off *CPU
	if off.sheds() {
		t.Error("without a limit, somebody is turned away")
	}
}

// This process's own work counts where the machine's is not all of it.
func TestCPUOfThisProcess(t *testing.T) {
	t.Parallel()
	c, err := OpenCPU(90)
	if err != nil {
		t.Fatal(err)
	}
	before := c.last
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
	}
	now, err := readCPU()
	if err != nil {
		t.Fatal(err)
	}
	if now.own-before.own < 0.02 || now.busy <= before.busy || now.all <= before.all {
		t.Errorf("after 300 ms of work: %+v, before %+v", now, before)
	}
	if busy := before.until(now); busy <= 0 || busy > 1 {
		t.Errorf("busy: %v", busy)
	}
	own := cpuTimes{own: 1e6, at: now.at.Add(time.Second)}
	if busy := (cpuTimes{at: now.at}).until(own); busy != 1 {
		t.Errorf("a process that is busy on all it has: %v", busy)
	}
}

func TestCPUOfStrangeFiles(t *testing.T) {
	t.Parallel()
	busy, all, err := machineTimes([]byte("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1\n"))
	if err != nil || busy != 2 || all != 10 {
		t.Errorf("busy %v of %v, %v", busy, all, err)
	}
	own, err := ownTime([]byte("12 (a) b) c) S 1 1 1 0 -1 4194560 0 0 0 0 150 50 0 0 20"))
	if err != nil || own != 2 {
		t.Errorf("own %v, %v", own, err)
	}
	for _, text := range []string{"", "cpu 1 2\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, _, err := machineTimes([]byte(text)); err == nil {
			t.Errorf("%q is taken for times", text)
		}
		if _, err := ownTime([]byte(text)); err == nil {
			t.Errorf("%q is taken for a process", text)
		}
	}
}
