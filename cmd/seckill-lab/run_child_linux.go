package main

import "syscall"

// serviceAttributes puts the service into a group of its own, so that a Ctrl-C on the terminal reaches only us
// and the order of stopping stays ours, and lets it die with the thread that starts it.
func serviceAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
