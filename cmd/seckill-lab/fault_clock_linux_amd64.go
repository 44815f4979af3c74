package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process reads the time through code that the kernel maps into it (the vDSO), without a system call. stepClock
// writes other code over it, in the memory of this one process: it makes the system call and adds the step to the
// wall clock. Libraries that are preloaded would reach neither Go programs nor processes that run already.
//
// It needs the right to trace the process, and changes only readings made through the vDSO, which is all of Go,
// Redis and Postgres. A process forked later inherits the step, an executed one does not.
func stepClock(pid int, by time.Duration) (undo func() error, err error) {
	family := append([]int{pid}, childrenOf(pid)...)
	var undos []func() error
	undo = func() error {
		var errs []error
		for _, one := range undos {
			if err := one(); !errors.Is(err, os.ErrNotExist) { // it has ended meanwhile, as sessions do
				errs = append(errs, err)
			}
		}
		// Sessions forked meanwhile have inherited the step.
		for _, child := range childrenOf(pid) {
			if err := restoreChild(pid, child); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	for _, one := range family {
		back, err := stepOne(one, int64(by/time.Second))
		if errors.Is(err, os.ErrNotExist) && one != pid {
			continue
		}
		if err != nil {
			return undo, errors.Join(err, undo())
		}
		undos = append(undos, back)
	}
	return undo, nil
}

// vdso is the kernel's code in a process.
type vdso struct {
	pid   int
	base  uint64
	image []byte
}

func readVDSO(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return nil, fmt.Errorf("read the memory map of process %d: %w", pid, err)
		}
		v := &vdso{pid: pid, base: from, image: make([]byte, to-from)}
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return nil, err
		}
		defer memory.Close()
		if _, err := memory.ReadAt(v.image, int64(from)); err != nil {
			return nil, fmt.Errorf("read the vDSO of process %d: %w", pid, err)
		}
		return v, nil
	}
	return nil, fmt.Errorf("process %d has no vDSO", pid)
}

// patches are the new codes by offset. Each has to fit into the function that it replaces.
func (v *vdso) patches(seconds int64) (map[uint64][]byte, error) {
	file, err := elf.NewFile(bytes.NewReader(v.image))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the symbols of the vDSO: %w", err)
	}
	codes := map[string][]byte{
		// mov eax,228; syscall; test edi,edi; je +5; cmp edi,5; jne +13; mov rcx,step; add [rsi],rcx; ret
		// (clock 0 is the wall clock, 5 its coarse form)
		"__vdso_clock_gettime": code("b8e4000000 0f05 85ff 7405 83ff05 750d 48b9", seconds, "48010e c3"),
		// mov eax,96; syscall; test rdi,rdi; je +13; mov rcx,step; add [rdi],rcx; ret
		"__vdso_gettimeofday": code("b860000000 0f05 4885ff 740d 48b9", seconds, "48010f c3"),
		// mov eax,201; syscall; mov rcx,step; add rax,rcx; test rdi,rdi; je +3; mov [rdi],rax; ret
		"__vdso_time": code("b8c9000000 0f05 48b9", seconds, "4801c8 4885ff 7403 488907 c3"),
	}
	found := map[uint64][]byte{}
	for _, s := range symbols {
		bytes, ours := codes[s.Name]
		if !ours {
			continue
		}
		if uint64(len(bytes)) > s.Size {
			return nil, fmt.Errorf("%s has room for %d bytes, %d are needed", s.Name, s.Size, len(bytes))
		}
		found[s.Value] = bytes
	}
	if len(found) < len(codes) {
		return nil, fmt.Errorf("the vDSO has %d of the %d functions", len(found), len(codes))
	}
	return found, nil
}

func code(before string, seconds int64, after string) []byte {
	digits := func(text string) (out []byte) {
		text = strings.ReplaceAll(text, " ", "")
		for i := 0; i < len(text); i += 2 {
			b, _ := strconv.ParseUint(text[i:i+2], 16, 8) // literals of this file
			out = append(out, byte(b))
		}
		return out
	}
	out := binary.LittleEndian.AppendUint64(digits(before), uint64(seconds))
	return append(out, digits(after)...)
}

func stepOne(pid int, seconds int64) (undo func() error, err error) {
	v, err := readVDSO(pid)
	if err != nil {
		return nil, err
	}
	patches, err := v.patches(seconds)
	if err != nil {
		return nil, err
	}
	original := map[uint64][]byte{}
	for at, bytes := range patches {
		original[at] = v.image[at : at+uint64(len(bytes))]
	}
	return func() error { return v.write(original) }, v.write(patches)
}

// restoreChild gives a forked process the code of its parent.
func restoreChild(parent, child int) error {
	of, err := readVDSO(parent)
	if err != nil {
		return err
	}
	v, err := readVDSO(child)
	if err != nil || bytes.Equal(v.image, of.image) {
		return err
	}
	return v.write(map[uint64][]byte{0: of.image})
}

// write stops the process while no thread of it runs the code that is changed.
func (v *vdso) write(codes map[uint64][]byte) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", v.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	for range 200 {
		if err := syscall.Kill(v.pid, syscall.SIGSTOP); err != nil {
			return os.ErrNotExist
		}
		if v.outside() {
			var errs []error
			for at, bytes := range codes {
				_, err := memory.WriteAt(bytes, int64(v.base+at))
				errs = append(errs, err)
			}
			errs = append(errs, syscall.Kill(v.pid, syscall.SIGCONT))
			return errors.Join(errs...)
		}
		_ = syscall.Kill(v.pid, syscall.SIGCONT)
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d was never seen outside of its clock functions", v.pid)
}

// outside says whether every thread is stopped somewhere else.
func (v *vdso) outside() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", v.pid)) // fails only on a bad pattern
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 2 { // "running": the signal has not arrived yet
			return false
		}
		counter, err := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err != nil || counter >= v.base && counter < v.base+uint64(len(v.image)) {
			return false
		}
	}
	return len(threads) > 0
}

// childrenOf lists the processes that a process has forked and not reaped.
func childrenOf(pid int) (found []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has ended has none
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
