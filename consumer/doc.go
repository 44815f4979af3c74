// Package consumer decides orders: workers take them from the log, batch by batch,
// and settle them in the ledger. Read [Worker] first; the way of one order goes
// worker.go, settler.go, ledger.go (book.go, sql/), and back to the gate.
//
// # What is promised
//
//   - No unit is sold twice and no buyer passes the limit, whoever settles and however
//     often: every settlement locks the SKU rows first, reads in a new statement after
//     the lock, and moves stock with "stock >= n" in the statement.
//   - A decision is final. The order id is the key everywhere: redelivery, retry and
//     replay find the row and change nothing.
//   - At most one settler of a partition can write: the lease picks who tries, the
//     term, which the ledger hands out and every transaction compares under a lock,
//     decides who may.
//   - A message is acknowledged after COMMIT is known, never before.
//
// # What happens under failures
//
// The ledger away, a lost commit answer, contention: the same messages are tried
// again, nothing is fetched and no delivery is burnt. An order that cannot be settled
// as it stands is found by halving its batch and held, alone, with a dead letter. A
// lost lease, a newer term, a log that was away: the hold on the partition ends, and
// the next one begins at the ledger's position. A log that is another one than
// recorded is settled from its beginning. A ledger that is behind what was
// acknowledged has lost commits: its gates wait for a rebuild and the log is settled
// again from where it is.
//
// # What is not promised
//
// Orders of one partition are decided in log order, those of different partitions in
// any. A decision takes as long as the ledger does. Whoever holds a lease may be one
// of two for a moment: only the term counts.
package consumer
