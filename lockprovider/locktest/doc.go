// Package locktest is the conformance suite of lockprovider: one list of cases for
// every backend, over real servers, with a proxy that delays, withholds and cuts, raw
// access to the store, and a clock that can be bent.
//
// A test file beside the backends hands it a Harness:
//
//	func TestConformance(t *testing.T) { locktest.Run(t, harness) }
//
// The groups: A exclusion and identity, B acquiring, C renewal and loss, D release,
// E waiting, F re-entry, G tokens, H inspection and force, I life cycle, J Redis only,
// K etcd only, L histories checked with Porcupine. A case waits for signals or polls
// with a deadline; it asserts a time only where the package promises one.
package locktest
