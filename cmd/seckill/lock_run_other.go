//go:build !linux

package main

import "syscall"

// endWithParent does nothing: only Linux tells a process that its parent has died.
func endWithParent(*syscall.SysProcAttr) {}
