// Package admission takes orders: it asks the gate, writes what was admitted to the
// order log, and answers the buyer when it is on disk. Read [Service] first; the way
// of one order goes http.go, service.go, lane.go, gate.go (lua/reserve.lua), stream.go,
// and on to package consumer.
//
// # What is promised
//
//   - An order answered with 202 is in the log, on disk, and will be decided by the
//     ledger. While the gate that admitted it lives, it will be accepted.
//   - A repeat (same buyer and key; or, with a limit of one and no key, same buyer
//     and SKU) is told the order of the first time, also after the sale has ended.
//   - Whatever is refused has changed nothing. What could not be found out is answered
//     with outcome-unknown, never with a guess.
//
// # What happens under failures
//
// A timeout is an unknown, never a failure: nothing here gives a unit back because a
// call timed out. A reservation stays at the gate until the ledger has decided; one
// whose node died is appended again by [Sweep]. A gate that is absent, closed, of
// another epoch or on another Redis than it was filled on admits nobody, until
// [Rebuild] has made it anew from the ledger. A log that refuses makes a node turn
// buyers away before the gate, until it takes orders again.
//
// # What is not promised
//
// The gate is an estimate in a store that may lose its data: that nothing is sold
// twice is kept by the ledger alone. If Redis is rolled back and nobody notices, an
// accepted order may be rejected by the ledger, with a reason. If NATS runs without
// syncing every write, a 202 is worth what the machine's page cache is worth.
package admission
