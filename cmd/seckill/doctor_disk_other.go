//go:build !linux && !darwin

package main

func freeOnDisk(string) (int64, bool) { return 0, false }
