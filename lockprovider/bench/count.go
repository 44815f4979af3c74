package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// requests is how many requests a store has received so far, by its own count.
type requests struct {
	all        float64
	scripts    float64 // Redis; renewals, while locks are only held
	keepAlives float64 // etcd
}

func (r requests) since(before requests) requests {
	return requests{r.all - before.all, r.scripts - before.scripts, r.keepAlives - before.keepAlives}
}

// asked is all that is not the keeping alive of a session.
func (r requests) asked() float64 { return r.all - r.keepAlives }

// A tally asks a store for its count. Asking is not counted.
type tally struct {
	c      contender
	at     servers
	client *redis.Client
}

func newTally(c contender, at servers) *tally {
	return &tally{c, at, redis.NewClient(&redis.Options{
		Addr: at.Redis, PoolSize: 1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

func (t *tally) close() { _ = t.client.Close() }

func (t *tally) read(ctx context.Context) (requests, error) {
	if t.c.store == storeRedis {
		return t.redisRequests(ctx)
	}
	return t.etcdRequests(ctx)
}

// redisRequests reads INFO commandstats. Redis counts the commands inside a script like
// those of clients, so only those are added up that no script of the library contains.
func (t *tally) redisRequests(ctx context.Context) (requests, error) {
	info, err := t.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return requests{}, err
	}
	counted := []string{"eval", "evalsha", "script|load", "subscribe", "unsubscribe", "ping"}
	if t.c.plain {
		counted = append(counted, "set", "setnx")
	}
	var r requests
	for _, command := range counted {
		_, rest, found := strings.Cut(info, "cmdstat_"+command+":calls=")
		if !found {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return r, fmt.Errorf("commandstats of %s: %w", command, err)
		}
		r.all += n
		if strings.HasPrefix(command, "eval") {
			r.scripts += n
		}
	}
	return r, nil
}

var calls = regexp.MustCompile(`^grpc_server_(msg_received|handled)_total\{(?:grpc_code="\w+",)?grpc_method="(\w+)",grpc_service="etcdserverpb\.(?:KV|Lease|Watch)",grpc_type="(\w+)"\} (\S+)$`)

// etcdRequests reads the server's metrics: messages received, so that those within a
// stream (keep-alive, watch) count one by one. The end of a stream is counted there like
// a message and is taken off again.
func (t *tally) etcdRequests(ctx context.Context) (requests, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.at.Etcd+"/metrics", nil)
	if err != nil {
		return requests{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return requests{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var r requests
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := calls.FindStringSubmatch(lines.Text())
		if m == nil || m[1] == "handled" && m[3] == "unary" {
			continue
		}
		n, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return r, err
		}
		if m[1] == "handled" {
			n = -n
		}
		r.all += n
		if m[2] == "LeaseKeepAlive" {
			r.keepAlives += n
		}
	}
	return r, lines.Err()
}
