//go:build unix && !linux

package main

import "syscall"

// serviceAttributes puts the service into a group of its own, so that a Ctrl-C on the terminal reaches only us
// and the order of stopping stays ours.
func serviceAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
