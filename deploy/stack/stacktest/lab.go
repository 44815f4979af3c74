package stacktest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	buildTimeout = 10 * time.Minute   // with an empty build cache, on a slow machine
	keepBuilt    = 7 * 24 * time.Hour // for a program that no test has used since
)

// sources are the files that decide what the children do. The program is built from
// the first two alone, so neither a change in a package under test nor a file of the
// lab that does not compile at the moment costs anything here.
var sources = []string{
	"cmd/seckill-lab/main.go", "cmd/seckill-lab/server.go",
	"deploy/stack/guard.go", "deploy/stack/home.go", "deploy/stack/segment.go",
	"deploy/stack/child.go", "go.mod",
}

// Lab returns the path of a seckill-lab that can run the children of a stack. It is
// built without race detector, once for all test binaries, and kept in the user's
// cache folder.
var Lab = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	key, err := sourceKey(root)
	if err != nil {
		return "", fmt.Errorf("read the sources of seckill-lab: %w", err)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", fmt.Errorf("make a folder for seckill-lab: %w", err)
	}
	lab := filepath.Join(cache, "seckill-lab-"+key)
	release, err := lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for other builds of seckill-lab: %w", err)
	}
	defer release()
	if _, err := os.Stat(lab); err != nil {
		if err := build(root, lab); err != nil {
			return "", err
		}
	}
	now := time.Now()
	_ = os.Chtimes(lab, now, now) // in use: see dropOld
	dropOld(cache, now)
	return lab, nil
})

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working folder: run the tests inside the module")
		}
		dir = parent
	}
}

func sourceKey(root string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range sources {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

func cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprintf("seckill-cache-%d", os.Getuid()))
	}
	cache = filepath.Join(cache, "seckill", "lab")
	return cache, os.MkdirAll(cache, 0o700)
}

// lockFile keeps test binaries that start together from building side by side. The
// system releases the lock when the process ends.
func lockFile(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(buildTimeout)
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(deadline) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func build(root, lab string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	partial := lab + ".partial"
	cmd := exec.CommandContext(ctx, "go", "build", "-race=false", "-ldflags=-s -w", "-o", partial, sources[0], sources[1])
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build seckill-lab (%s): %w:\n%s", cmd, err, out)
	}
	return os.Rename(partial, lab)
}

func dropOld(cache string, now time.Time) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), "seckill-lab-") && now.Sub(info.ModTime()) > keepBuilt {
			_ = os.Remove(filepath.Join(cache, entry.Name()))
		}
	}
}
