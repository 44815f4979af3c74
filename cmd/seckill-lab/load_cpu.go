package main

import (
	"maps"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// ticksPerSecond is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// cpuTimes is what processes have taken so far, by name.
type cpuTimes map[string]time.Duration

// cpuOf reads the CPU time of each process together with those it has forked. Where there is no /proc it is
// empty.
func cpuOf(pids map[string]int) cpuTimes {
	all, err := procfs.AllProcs()
	if err != nil || len(pids) == 0 {
		return nil
	}
	children := map[int][]procfs.ProcStat{}
	own := map[int]procfs.ProcStat{}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // ended meanwhile
		}
		own[stat.PID] = stat
		children[stat.PPID] = append(children[stat.PPID], stat)
	}
	times := cpuTimes{}
	for name, pid := range pids {
		stat, there := own[pid]
		switch {
		case !there:
		case pid == os.Getpid(): // the servers may be its children
			times[name] = ownCPU()
		default:
			times[name] = treeTime(stat, children)
		}
	}
	return times
}

// treeTime counts a process, the children it has reaped and those that run.
func treeTime(stat procfs.ProcStat, children map[int][]procfs.ProcStat) time.Duration {
	ticks := int64(stat.UTime+stat.STime) + int64(stat.CUTime) + int64(stat.CSTime)
	total := time.Duration(ticks) * (time.Second / ticksPerSecond)
	for _, child := range children[stat.PID] {
		total += treeTime(child, children)
	}
	return total
}

// since is what was taken after the earlier reading.
func (c cpuTimes) since(before cpuTimes) cpuTimes {
	spent := maps.Clone(c)
	for name := range spent {
		spent[name] -= before[name]
	}
	return spent
}
