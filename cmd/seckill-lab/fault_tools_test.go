package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/deploy/stack/stacktest"
)

// A small file system takes so much and no more, and is gone afterwards. Without root it says what is missing.
func TestSmallDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	unmount, err := mountSmall(dir)
	if err != nil {
		if os.Geteuid() == 0 && runtime.GOOS == "linux" || isMount(dir) {
			t.Fatal(err)
		}
		t.Logf("as expected here: %v", err)
		return
	}
	written, err := fill(filepath.Join(dir, "ballast"))
	if !errors.Is(err, syscall.ENOSPC) || written < smallDisk/2 || written > smallDisk {
		t.Errorf("%d bytes, then %v", written, err)
	}
	if err := unmount(); err != nil || isMount(dir) {
		t.Errorf("unmount: %v, still there: %v", err, isMount(dir))
	}
}

// The keeper of a mount takes it away when the lab dies, however it dies: it waits for the end of its input.
func TestSmallDiskIsGoneWithTheLab(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Log("mounting needs root on Linux: TestSmallDisk shows what is said without")
		return
	}
	dir := filepath.Join(t.TempDir(), "disk")
	helper := exec.Command(os.Args[0], "-test.run=^TestSmallDiskHelper$", "-test.v")
	helper.Env = append(os.Environ(), "LAB_MOUNT="+dir)
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "mounted") {
	}
	if !isMount(dir) {
		t.Error("it was not mounted")
	}
	_ = helper.Process.Kill()
	_ = helper.Wait()
	for deadline := time.Now().Add(goneTimeout); isMount(dir); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = exec.Command("umount", "-l", dir).Run()
			t.Fatal("the mount outlived its owner")
		}
	}
}

// TestSmallDiskHelper is the process that is killed above; by itself it does nothing.
func TestSmallDiskHelper(t *testing.T) {
	dir := os.Getenv("LAB_MOUNT")
	if dir == "" {
		return
	}
	if _, err := mountSmall(dir); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("mounted\n")
	time.Sleep(goneTimeout) // killed long before
}

// ownRedis is a Redis of this test alone, on a socket file.
func ownRedis(t *testing.T) (*redis.Client, int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab-redis-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(readyTimeout); client.Ping(t.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Redis does not answer")
		}
	}
	return client, server.Process.Pid
}

func TestClockOfOneProcessSteps(t *testing.T) {
	client, pid := ownRedis(t)
	ahead := func() time.Duration {
		told, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(told)
	}
	for _, by := range []time.Duration{time.Hour, -time.Minute} {
		undo, err := stepClock(pid, by)
		if err != nil {
			if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && os.Geteuid() == 0 {
				t.Fatal(err)
			}
			t.Logf("as expected here: %v", err)
			return
		}
		if off := ahead() - by; off.Abs() > 5*time.Second {
			t.Errorf("a step of %v is off by %v", by, off)
		}
		if err := undo(); err != nil || ahead().Abs() > 5*time.Second {
			t.Errorf("after the step back it is %v ahead (%v)", ahead(), err)
		}
	}
}

// echo answers with what it gets, a line at a time.
func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
	}
}

func TestLinksLoseAndHoldBack(t *testing.T) {
	servers := stacktest.Get(t)
	l, err := newLinks(servers)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if n := len(l.matching("redis")); n != 2 {
		t.Errorf("%d links to redis, want one a role", n)
	}
	if n := len(l.matching("worker")); n != 4 {
		t.Errorf("%d links of a worker, want one a server", n)
	}
	env := strings.Join(l.through(servers.Env("etcd"), "api"), "\n")
	if !strings.Contains(env, l.proxies["api/etcd"].Listen) || !strings.Contains(env, "@"+l.proxies["api/postgres"].Listen+"/") {
		t.Errorf("the configuration does not go through the proxies:\n%s", env)
	}

	ask := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return askServer(ctx, "redis", l.proxies["api/redis"].Listen, "hello")
	}
	if err := ask(storeCall); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{lostToxic, heldToxic} {
		met, err := l.poison("redis", kind, nil, downstream)
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(100 * time.Millisecond); err == nil {
			t.Errorf("%s: an answer came through", kind)
		}
		if met() == 0 {
			t.Errorf("%s: no byte was counted", kind)
		}
		l.cure()
		if err := ask(storeCall); err != nil {
			t.Errorf("after %s: %v", kind, err)
		}
	}
}

// What is held back arrives later, whole and in order, on the same connection.
func TestHeldBackArrives(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go echo(listener)
	l := &links{proxies: map[string]*toxiproxy.Proxy{}}
	if err := l.add("api/echo", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	conn, err := net.Dial("tcp", l.proxies["api/echo"].Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(readyTimeout))
	answers := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\n") }
	say("one")
	if line, err := answers.ReadString('\n'); line != "one\n" {
		t.Fatalf("%q, %v", line, err)
	}
	met, err := l.poison("api/echo", heldToxic, nil, upstream, downstream)
	if err != nil {
		t.Fatal(err)
	}
	say("two")
	say("three")
	for deadline := time.Now().Add(readyTimeout); met() < int64(len("two\nthree\n")); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are held back", met())
		}
	}
	l.cure()
	for _, want := range []string{"two\n", "three\n"} {
		if line, err := answers.ReadString('\n'); line != want {
			t.Errorf("%q, %v; want %q", line, err, want)
		}
	}
}
