//go:build !linux

package main

import "errors"

func mountTmpfs(string, int64) error {
	return errors.New("a small file system is mounted on Linux only; use nats-stream-full")
}
