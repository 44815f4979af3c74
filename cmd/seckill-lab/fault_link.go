package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"seckill/deploy/stack"
)

// links are the connections of the service to its servers, each pair of role and server through a proxy of its
// own, so that a fault can hit one of them alone.
type links struct {
	servers *stack.Stack
	proxies map[string]*toxiproxy.Proxy // by "role/server"
}

func newLinks(servers *stack.Stack) (*links, error) {
	l := &links{servers: servers, proxies: map[string]*toxiproxy.Proxy{}}
	for _, role := range []string{"api", "worker"} {
		for _, name := range stack.Names {
			if err := l.add(role+"/"+name, servers.Address(name)); err != nil {
				l.close()
				return nil, err
			}
		}
	}
	return l, nil
}

// add starts a proxy on a free port.
func (l *links) add(name, address string) error {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics write past the logger they are given
	broker := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(broker, name, "127.0.0.1:0", address)
	if err := p.Start(); err != nil {
		return fmt.Errorf("start a proxy on the link %s: %w", name, err)
	}
	l.proxies[name] = p
	return nil
}

// through points a configuration at the proxies of a role.
func (l *links) through(env []string, role string) []string {
	at := func(rawURL, name string) string {
		u, err := url.Parse(rawURL)
		if err != nil {
			return rawURL // the stack's own, always good
		}
		u.Host = l.proxies[role+"/"+name].Listen
		return u.String()
	}
	return append(env,
		"SECKILL_REDIS_URL="+at(l.servers.RedisURL(), stack.Redis),
		"SECKILL_POSTGRES_URL="+at(l.servers.PostgresURL(), stack.Postgres),
		"SECKILL_NATS_URL="+at(l.servers.NATSURL(), stack.NATS),
		"SECKILL_ETCD_ENDPOINTS="+l.proxies[role+"/"+stack.Etcd].Listen)
}

// matching are the proxies of a server ("redis"), a role ("worker") or one pair ("worker/redis").
func (l *links) matching(where string) (found []*toxiproxy.Proxy) {
	for name, p := range l.proxies {
		role, server, _ := strings.Cut(name, "/")
		if where == name || where == role || where == server {
			found = append(found, p)
		}
	}
	return found
}

// poison adds a toxic to every proxy that matches, in the given directions. The function it returns tells how
// many bytes met it so far (only our own toxics count).
func (l *links) poison(where, kind string, attributes map[string]any, directions ...string) (met func() int64, err error) {
	var meters []meter
	for _, p := range l.matching(where) {
		for _, direction := range directions {
			data, err := json.Marshal(map[string]any{
				"name": kind + "-" + direction, "type": kind, "stream": direction, "attributes": attributes,
			})
			if err != nil {
				return nil, fmt.Errorf("describe toxic %s: %w", kind, err)
			}
			added, err := p.Toxics.AddToxicJson(strings.NewReader(string(data)))
			if err != nil {
				return nil, fmt.Errorf("add toxic %s to the link %s: %w", kind, p.Name, err)
			}
			if m, ok := added.Toxic.(meter); ok {
				meters = append(meters, m)
			}
		}
	}
	return func() (sum int64) {
		for _, m := range meters {
			sum += m.bytes()
		}
		return sum
	}, nil
}

// cure takes every toxic away.
func (l *links) cure() {
	for _, p := range l.proxies {
		p.Toxics.ResetToxics(context.Background())
	}
}

func (l *links) close() {
	l.cure()
	for _, p := range l.proxies {
		p.Stop()
	}
}

const (
	upstream   = "upstream"   // requests: from the service to the server
	downstream = "downstream" // answers
	lostToxic  = "lab-lost"
	heldToxic  = "lab-held"
)

func init() {
	toxics.Register(lostToxic, new(lost))
	toxics.Register(heldToxic, new(held))
}

// meter is a toxic that knows how much it did.
type meter interface{ bytes() int64 }

type metered struct{ n atomic.Int64 }

func (m *metered) bytes() int64 { return m.n.Load() }

// lost swallows what is sent. The connection looks alive meanwhile and is closed when the toxic is taken away,
// since bytes are missing in it.
type lost struct{ metered }

func (l *lost) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			l.n.Add(int64(len(chunk.Data)))
		}
	}
}

func (l *lost) Cleanup(stub *toxics.ToxicStub) { stub.Close() }

// held keeps what is sent and delivers it, late and in order, when it is taken away: a cut that TCP survives.
type held struct{ metered }

func (h *held) Pipe(stub *toxics.ToxicStub) {
	var kept []*stream.StreamChunk
	input, closed := stub.Input, false
	for {
		select {
		case <-stub.Interrupt:
			for _, chunk := range kept {
				if stub.WriteOutput(chunk, storeCall) != nil {
					return // nobody reads there any more
				}
			}
			if closed {
				stub.Close()
			}
			return
		case chunk := <-input:
			if chunk == nil { // the end is held back like everything else
				input, closed = nil, true
				continue
			}
			kept = append(kept, chunk)
			h.n.Add(int64(len(chunk.Data)))
		}
	}
}
