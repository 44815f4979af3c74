package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

const postgresUser = "postgres"

type postgresProgram struct {
	bin  string // folder of initdb and postgres
	home *home
	port int
}

// findPostgres looks where the packages of the usual systems put the server, newest
// first, and then on the PATH. Debian keeps it off the PATH.
func findPostgres() (string, error) {
	patterns := []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin", "/usr/local/pgsql/bin",
	}
	best, bestVersion := "", -1
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // fails only on a bad pattern
		for _, bin := range found {
			if v := versionIn(bin); v > bestVersion && holdsPostgres(bin) {
				best, bestVersion = bin, v
			}
		}
	}
	if best != "" {
		return best, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil && holdsPostgres(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	return "", missing("the PostgreSQL server", "postgresql", "postgresql@17")
}

func missing(what, debian, brew string) error {
	return fmt.Errorf("stack: %s is not installed: run deploy/stack/install.sh, or install it yourself (Debian: apt-get install %s; macOS: brew install %s); no service has to run", what, debian, brew)
}

func holdsPostgres(bin string) bool {
	_, initdb := os.Stat(filepath.Join(bin, "initdb"))
	_, server := os.Stat(filepath.Join(bin, "postgres"))
	return initdb == nil && server == nil
}

// versionIn is the first number in a path, 0 without one.
func versionIn(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	v, _ := strconv.Atoi(digits[0])
	return v
}

func (p *postgresProgram) name() string               { return Postgres }
func (p *postgresProgram) address() string            { return loopback(p.port) }
func (p *postgresProgram) stopSignal() syscall.Signal { return syscall.SIGINT } // "fast": ends sessions, keeps everything committed

func (p *postgresProgram) addresses() (err error) {
	p.port, err = freePort()
	return err
}

func (p *postgresProgram) url() string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", postgresUser, p.address())
}

// command runs the server without a socket file and without shared memory objects
// that would outlive it, and otherwise as an operator would: fsync and
// synchronous_commit are on, which the defaults say too, but a test of durability
// should not rest on a default.
func (p *postgresProgram) command() *exec.Cmd {
	cmd := p.as(exec.Command(filepath.Join(p.bin, "postgres"),
		"-D", p.home.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(p.port)))
	for _, setting := range []string{
		"fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_connections=200",
		"unix_socket_directories=", "dynamic_shared_memory_type=mmap", "logging_collector=off",
		"log_line_prefix=%m [%p] ", "log_timezone=UTC", "timezone=UTC",
		"shared_preload_libraries=pg_stat_statements", // counts what a promise costs in queries
	} {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	return cmd
}

// as makes a program of Postgres run as the user that owns its folder, from a folder
// that this user can stand in.
func (p *postgresProgram) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if p.home.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.home.credential}
	}
	return cmd
}

func (p *postgresProgram) probe(ctx context.Context, _ int) error {
	conn, err := pgx.Connect(ctx, p.url())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var data string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&data); err != nil {
		return err
	}
	if !sameFile(data, p.home.data()) {
		return fmt.Errorf("the server on %s is another stack's, with its data in %s", p.address(), data)
	}
	return nil
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// prepare makes the database cluster. initdb takes longer than everything else
// together, so one result per version is kept in the user's cache folder and copied.
func (p *postgresProgram) prepare(ctx context.Context) error {
	if _, err := os.Stat(p.home.data()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := p.home.data() + ".new" // renamed when whole
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := p.create(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, p.home.data())
}

func (p *postgresProgram) create(ctx context.Context, fresh string) error {
	template := p.template(ctx)
	own := func(path string, _ fs.FileInfo) error { return p.home.own(path) }
	if template != "" {
		if _, err := os.Stat(template); err == nil {
			return copyTree(template, fresh, own)
		}
	}
	if err := p.initdb(ctx, fresh); err != nil {
		return err
	}
	if template != "" {
		keepTemplate(fresh, template)
	}
	return nil
}

// initdb does not sync: the cluster holds nothing yet that a crash could take.
func (p *postgresProgram) initdb(ctx context.Context, fresh string) error {
	cmd := p.as(exec.CommandContext(ctx, filepath.Join(p.bin, "initdb"), "-D", fresh,
		"-U", postgresUser, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", cmd, err, out)
	}
	return nil
}

// template is where the cluster of this very version is kept, empty if there is no
// cache folder.
func (p *postgresProgram) template(ctx context.Context) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	version, err := exec.CommandContext(ctx, filepath.Join(p.bin, "postgres"), "--version").Output()
	if err != nil {
		return ""
	}
	plain := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.TrimSpace(string(version)))
	return filepath.Join(cache, "seckill", "initdb", plain)
}

// keepTemplate is best effort: without a template the next start is slower.
func keepTemplate(fresh, template string) {
	if os.MkdirAll(filepath.Dir(template), 0o700) != nil {
		return
	}
	partial, err := os.MkdirTemp(filepath.Dir(template), ".partial-")
	if err != nil {
		return
	}
	defer os.RemoveAll(partial)
	copied := filepath.Join(partial, "data")
	if copyTree(fresh, copied, func(string, fs.FileInfo) error { return nil }) == nil {
		_ = os.Rename(copied, template) // fails if another stack was first, which is as good
	}
}
