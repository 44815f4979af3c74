//go:build linux || darwin

package main

import "syscall"

// freeOnDisk is what the file system of a folder has left for everybody, in bytes.
func freeOnDisk(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
