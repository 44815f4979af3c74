package consumer_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// slowPostgres is the URL of the shared Postgres through a proxy that delays
// every answer.
func slowPostgres(t *testing.T, delay time.Duration) string {
	t.Helper()
	servers := stacktest.Get(t)
	u, err := url.Parse(servers.PostgresURL())
	must(t, err)
	p := newProxy(t, servers.Address(stack.Postgres))
	toxic(t, p, "latency", "downstream", map[string]any{"latency": delay.Milliseconds()})
	u.Host = p.Listen
	return u.String()
}

// newProxy forwards to a server until the test ends.
func newProxy(t *testing.T, upstream string) *toxiproxy.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", upstream)
	must(t, p.Start())
	t.Cleanup(p.Stop)
	return p
}

func toxic(t *testing.T, p *toxiproxy.Proxy, kind, stream string, attributes map[string]any) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"name": kind, "type": kind, "stream": stream, "attributes": attributes})
	must(t, err)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(data))); err != nil {
		t.Fatal(fmt.Errorf("add toxic %s: %w", kind, err))
	}
}
