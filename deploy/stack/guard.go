package stack

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const guardGrace = 5 * time.Second // for orphans to end in order before they are killed

// order is one line to the guard. While the line stays open the guard only takes
// notes; when it closes, it acts on what was not taken back.
type order struct {
	Watch  int            `json:"watch,omitempty"`  // a process to end
	Signal syscall.Signal `json:"signal,omitempty"` // how to end it in order
	File   string         `json:"file,omitempty"`   // its pid file
	Forget int            `json:"forget,omitempty"` // a process that is gone
	Home   *homeOrder     `json:"home,omitempty"`   // the folder of Postgres
	Remove string         `json:"remove,omitempty"` // a folder to delete
	Done   bool           `json:"done,omitempty"`   // nothing is left to do
}

type homeOrder struct {
	Folder string `json:"folder"` // where it is
	Link   string `json:"link"`   // where it belongs, empty if it is there already
}

// guardLink is the stack's end of the line.
type guardLink struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	line io.WriteCloser
}

// startGuard runs the guard in a session of its own, so that what ends us, a Ctrl-C
// or a kill of the whole process group, does not end it too. It inherits the lock on
// the folder and releases it by ending.
func startGuard(lab string, sp *spawner, lock *os.File) (*guardLink, error) {
	cmd := exec.Command(lab, "server", "guard")
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	line, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("stack: open a pipe to the guard: %w", err)
	}
	if err := sp.start(cmd); err != nil {
		return nil, fmt.Errorf("stack: start the guard (%s server guard): %w: build it with: go build -o bin/ ./cmd/seckill-lab", lab, err)
	}
	return &guardLink{cmd: cmd, line: line}, nil
}

func (g *guardLink) watch(pid int, sig syscall.Signal, file string) {
	g.tell(order{Watch: pid, Signal: sig, File: file})
}

func (g *guardLink) forget(pid int)           { g.tell(order{Forget: pid}) }
func (g *guardLink) home(folder, link string) { g.tell(order{Home: &homeOrder{folder, link}}) }
func (g *guardLink) remove(folder string)     { g.tell(order{Remove: folder}) }

// tell ignores a guard that was killed: it is the second safeguard, and its absence
// must not stop the stack.
func (g *guardLink) tell(o order) {
	text, err := json.Marshal(o)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = g.line.Write(append(text, '\n'))
}

func (g *guardLink) close() error {
	g.tell(order{Done: true})
	_ = g.line.Close()
	ended := make(chan struct{})
	go func() { _ = g.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-time.After(guardGrace):
		_ = g.cmd.Process.Kill()
		<-ended
		return errors.New("stack: the guard process did not end by itself and was killed")
	}
}

// Guard reads what a stack tells it, until the line closes. If the stack did not say
// that it is done, its process died: Guard then ends the servers that are left, in
// order or by force, and removes what they leave behind. It is the body of
// "seckill-lab server guard"; nothing else calls it.
func Guard(line io.Reader) error {
	g := &guard{processes: map[int]orphan{}}
	lines := bufio.NewScanner(line)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("guard: read an order %q: %w", lines.Text(), err)
		}
		if o.Done {
			return nil
		}
		g.note(o)
	}
	return g.act()
}

type orphan struct {
	process *os.Process
	signal  syscall.Signal
	pidFile string
}

type guard struct {
	processes map[int]orphan
	home      *homeOrder
	removals  []string
}

func (g *guard) note(o order) {
	switch {
	case o.Watch != 0:
		// Taken while it lives: where the system has process handles, this one never
		// means another process with the same number.
		if p, err := os.FindProcess(o.Watch); err == nil {
			g.processes[o.Watch] = orphan{p, o.Signal, o.File}
		}
	case o.Forget != 0:
		if known, ok := g.processes[o.Forget]; ok {
			_ = known.process.Release()
		}
		delete(g.processes, o.Forget)
	case o.Home != nil:
		g.home = o.Home
	case o.Remove != "":
		g.removals = append(g.removals, o.Remove)
	}
}

func (g *guard) act() error {
	for pid, p := range g.processes {
		for _, below := range descendants(pid) {
			_ = syscall.Kill(below, syscall.SIGCONT)
		}
		_ = p.process.Signal(syscall.SIGCONT)
		_ = p.process.Signal(p.signal)
	}
	deadline := time.Now().Add(guardGrace)
	for _, p := range g.processes {
		for p.process.Signal(syscall.Signal(0)) == nil {
			if time.Now().After(deadline) {
				_ = p.process.Kill()
				break
			}
			time.Sleep(probeEvery)
		}
		_ = os.Remove(p.pidFile)
	}
	var err error
	if g.home != nil {
		err = g.home.close()
	}
	for _, folder := range g.removals {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
