package lockprovider_test

import (
	"testing"

	"seckill/lockprovider/locktest"
)

func onBoth(t *testing.T, id string) {
	for _, backend := range []string{"redis", "etcd"} {
		t.Run(backend, func(t *testing.T) { locktest.RunOne(t, harness(t, backend), id) })
	}
}

// Not parallel: it counts the goroutines of the process.
func TestCase17TenThousandPairsLeaveNothing(t *testing.T) { onBoth(t, "CASE17") }

func TestCase18DeletedKeyStopsTheWork(t *testing.T) {
	onBoth(t, "CASE18")
}

func TestCase19WaiterWhoseSessionDies(t *testing.T) {
	onBoth(t, "CASE19")
}
