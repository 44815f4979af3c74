package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// The names of the four servers, as they appear in commands, pid files and errors.
const (
	Redis    = "redis"
	Postgres = "postgres"
	NATS     = "nats"
	Etcd     = "etcd"
)

// Names lists the servers in the order in which they are printed.
var Names = []string{Redis, Postgres, NATS, Etcd}

// ErrRunning is returned by [Stack.Start] for a server that is up and answers.
var ErrRunning = errors.New("already running")

// ErrNotRunning is returned for a server that is down and would have to be up.
var ErrNotRunning = errors.New("not running")

// Stack is four running servers. Its methods are safe for concurrent use; starts
// and stops of one server wait for each other.
type Stack struct {
	cfg        Config
	adminToken string
	paymentKey string
	servers    map[string]*server
	home       *home
	spawner    *spawner
	guard      *guardLink
	lock       *folderLock
	closing    context.Context // ends the waiting of starts that Close meets
	beginClose context.CancelFunc
	closeOnce  sync.Once
	closeErr   error
}

// Open starts the four servers side by side and returns when all of them answer.
// If one cannot start, everything is stopped again. The context bounds only the
// start.
func Open(ctx context.Context, cfg Config) (*Stack, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Stack{cfg: cfg, adminToken: rand.Text(), paymentKey: rand.Text(), spawner: newSpawner()}
	s.closing, s.beginClose = context.WithCancel(context.Background())
	if err := s.assemble(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.startAll(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// assemble finds the programs and makes ready what all servers share. A missing
// program is reported before anything is started.
func (s *Stack) assemble() error {
	redisServer, redisErr := findRedis()
	postgresBin, postgresErr := findPostgres()
	if err := errors.Join(redisErr, postgresErr); err != nil {
		return err
	}
	var err error
	if s.lock, err = lockFolder(s.cfg.Dir); err != nil {
		return err
	}
	if s.guard, err = startGuard(s.cfg.Lab, s.spawner, s.lock.guard); err != nil {
		return err
	}
	if s.cfg.Scratch {
		s.guard.remove(s.cfg.Dir)
	}
	if s.home, err = openHome(s.cfg.Dir, s.guard); err != nil {
		return err
	}
	identity := identityOf(s.cfg.Dir)
	s.servers = map[string]*server{
		Redis:    s.serve(&redisProgram{path: redisServer, dir: s.folder(Redis)}),
		Postgres: s.serve(&postgresProgram{bin: postgresBin, home: s.home}),
		NATS:     s.serve(&natsProgram{lab: s.cfg.Lab, dir: s.folder(NATS), identity: identity}),
		Etcd:     s.serve(&etcdProgram{lab: s.cfg.Lab, dir: s.folder(Etcd), identity: identity}),
	}
	return nil
}

func (s *Stack) serve(p program) *server {
	return &server{
		program: p, dir: s.cfg.Dir, log: s.cfg.Log, spawner: s.spawner, guard: s.guard, closing: s.closing,
		startTimeout: s.cfg.StartTimeout, stopTimeout: s.cfg.StopTimeout,
	}
}

func (s *Stack) folder(name string) string { return filepath.Join(s.cfg.Dir, name) }

func (s *Stack) startAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(s.servers))
	for _, srv := range s.servers {
		go func() { errs <- srv.open(ctx) }()
	}
	var failed error
	for range s.servers {
		// The first failure ends the waiting of the others, so it is the one to tell.
		if err := <-errs; err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	return failed
}

// Dir is the folder of the stack, absolute.
func (s *Stack) Dir() string { return s.cfg.Dir }

// Start starts a server that is down, on its old data and port, and returns when it
// answers. It fails with [ErrRunning] if the server is up and answers.
func (s *Stack) Start(ctx context.Context, name string) error {
	return s.with(name, func(srv *server) error { return srv.start(ctx) })
}

// Stop ends one server in order, and kills it if that takes longer than
// Config.StopTimeout. Stopping a server that is down does nothing.
func (s *Stack) Stop(name string) error {
	return s.with(name, (*server).stop)
}

// Restart stops a server in order and starts it again on its old data and port.
func (s *Stack) Restart(ctx context.Context, name string) error {
	if err := s.Stop(name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

// Kill ends a server with SIGKILL, together with the processes it has forked, and
// returns when it is gone.
func (s *Stack) Kill(name string) error {
	return s.with(name, (*server).kill)
}

// Pause freezes a server and the processes it has forked (SIGSTOP): its connections
// stay open and nothing answers.
func (s *Stack) Pause(name string) error {
	return s.with(name, (*server).pause)
}

// Resume lets a paused server go on (SIGCONT).
func (s *Stack) Resume(name string) error {
	return s.with(name, (*server).resume)
}

// PID is the process id of a server, 0 while it is down.
func (s *Stack) PID(name string) int {
	srv, ok := s.servers[name]
	if !ok {
		return 0
	}
	return srv.pid()
}

func (s *Stack) with(name string, act func(*server) error) error {
	srv, ok := s.servers[name]
	if !ok {
		return fmt.Errorf("stack: there is no server %q: use one of redis, postgres, nats, etcd", name)
	}
	return act(srv)
}

// Close stops all servers side by side and removes what would stay behind: shared
// memory, pid files, folders outside Dir. The data in Dir stays. Later calls return
// the result of the first. It takes at most Config.StopTimeout and a few seconds.
func (s *Stack) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Stack) close() error {
	s.beginClose()
	errs := make(chan error, len(s.servers))
	for _, srv := range s.servers {
		go func() { errs <- srv.retire() }()
	}
	var err error
	for range s.servers {
		err = errors.Join(err, <-errs)
	}
	if s.home != nil {
		err = errors.Join(err, s.home.close())
	}
	if s.cfg.Scratch {
		err = errors.Join(err, os.RemoveAll(s.cfg.Dir))
	}
	if s.guard != nil {
		err = errors.Join(err, s.guard.close())
	}
	s.spawner.close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.release())
	}
	return err
}
