package stack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// home is the folder of Postgres. The server refuses to run as root, so for root it
// belongs to another user, and stands elsewhere if that user cannot get to Dir.
type home struct {
	homeOrder
	credential *syscall.Credential // nil: run as ourselves
}

func openHome(dir string, guard *guardLink) (*home, error) {
	h := &home{homeOrder: homeOrder{Folder: filepath.Join(dir, Postgres)}}
	if err := h.settle(dir); err != nil {
		return nil, fmt.Errorf("stack: make the folder of postgres: %w", err)
	}
	guard.home(h.Folder, h.Link)
	return h, nil
}

func (h *home) settle(dir string) error {
	place := h.Folder
	// A link is what a stack left that died together with its guard.
	if target, err := os.Readlink(place); err == nil {
		if err := (&homeOrder{Folder: target, Link: place}).moveBack(); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return os.MkdirAll(place, 0o700)
	}
	var err error
	if h.credential, err = unprivileged(); err != nil {
		return err
	}
	if canEnter(dir, h.credential) {
		if err := os.MkdirAll(place, 0o700); err != nil {
			return err
		}
		return h.own(place)
	}
	return h.moveOut(place)
}

// moveOut puts the folder where the other user gets to it, and a link in its place.
func (h *home) moveOut(place string) error {
	outside, err := os.MkdirTemp(worldFolder(), "seckill-postgres-")
	if err != nil {
		return err
	}
	if _, err := os.Stat(place); err == nil {
		if err := errors.Join(os.Remove(outside), moveTree(place, outside)); err != nil {
			return err
		}
	}
	h.Folder, h.Link = outside, place
	return errors.Join(h.own(outside), os.Symlink(outside, place))
}

func worldFolder() string {
	if info, err := os.Stat("/var/tmp"); err == nil && info.IsDir() {
		return "/var/tmp"
	}
	return os.TempDir()
}

func (h *home) own(path string) error {
	if h.credential == nil {
		return nil
	}
	return os.Lchown(path, int(h.credential.Uid), int(h.credential.Gid))
}

func (h *home) data() string { return filepath.Join(h.Folder, "data") }

// close removes what a killed Postgres leaves in the kernel, and brings the folder
// back to where it belongs.
func (h *homeOrder) close() error {
	return errors.Join(removeSegment(filepath.Join(h.Folder, "data")), h.moveBack())
}

func (h *homeOrder) moveBack() error {
	if h.Link == "" {
		return nil
	}
	if _, err := os.Readlink(h.Link); err == nil { // and not the folder itself, already back
		if err := os.Remove(h.Link); err != nil {
			return err
		}
	}
	if _, err := os.Stat(h.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(h.Link)); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(h.Folder) // Dir was deleted meanwhile
	}
	if err := moveTree(h.Folder, h.Link); err != nil {
		return fmt.Errorf("stack: bring the folder of postgres back: %w", err)
	}
	h.Folder, h.Link = h.Link, ""
	return nil
}

// unprivileged is the user that runs Postgres for root.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("postgres refuses to run as root, and there is no user postgres or nobody to run it: create one, or run as another user")
}

// canEnter asks the kernel, which also knows about access lists.
func canEnter(dir string, credential *syscall.Credential) bool {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd.Run() == nil
}

// moveTree renames, or copies and deletes where the two are on different disks.
func moveTree(from, to string) error {
	if err := os.Rename(from, to); !errors.Is(err, syscall.EXDEV) {
		return err
	}
	if err := copyTree(from, to, keepOwner); err != nil {
		return err
	}
	return os.RemoveAll(from)
}

func keepOwner(path string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return os.Lchown(path, int(stat.Uid), int(stat.Gid))
	}
	return nil
}

// copyTree copies folders and plain files with their permissions; own is called for
// each copy.
func copyTree(from, to string, own func(path string, original fs.FileInfo) error) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		switch {
		case entry.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			err = copyFile(path, target, info.Mode().Perm())
		default:
			err = fmt.Errorf("copy %s: neither folder nor plain file", path)
		}
		if err != nil {
			return err
		}
		return own(target, info)
	})
}

func copyFile(from, to string, perm fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
