package lockprovider

import (
	"context"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Open makes a provider with store connections of its own, set up as leases need
// them. It checks the configuration and does not wait for the store: when the store
// is away, acquisitions report ErrUnavailable until it is back. ctx is used for
// nothing that outlives the call.
func Open(ctx context.Context, cfg Config) (*Provider, error) {
	panic("not built yet")
}

// OpenRedis makes a provider over a client of the caller's, who closes the client
// after the provider.
func OpenRedis(client redis.UniversalClient, cfg Config) (*Provider, error) {
	panic("not built yet")
}

// OpenEtcd makes a provider over a client of the caller's, who closes the client
// after the provider.
func OpenEtcd(client *clientv3.Client, cfg Config) (*Provider, error) {
	panic("not built yet")
}
