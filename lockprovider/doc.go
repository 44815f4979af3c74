// Package lockprovider grants leases on named resources, over etcd or Redis.
//
// A lease is advice: a paused process, a partition or a jumping clock can leave two
// parties convinced that they hold it. Anything that must not happen twice has to be
// guarded where it happens: pass Lease.Token to that place and refuse smaller ones
// (see Fencing below, and the example of Lease.Token).
//
// # Promises
//
// What holds while processes crash, networks cut, delay or lose, and clocks step:
//
//	                                       etcd               Redis, one primary            Redis with failover
//	one unexpired grant per name           yes, by consensus  while it keeps data and time  no
//	the holder stops before the next       yes, if clock rates differ by less than drift and guard (1 % + 2 ms, a tenth of the TTL);
//	  one starts (no pause of a process)     on Redis also only while the line above holds
//	tokens rise in the order of grants     yes                while counter or clock live   not in a split brain
//	first queued, first served             yes                within a process              within a process
//	a dead holder's name is free after     TTL + election     TTL                           TTL
//	store away                             no new grants; holders stop at their deadline, and resume by acquiring again
//	two writers both let in by a fence     no                 no                            no
//
// "Keeps its time": Redis expires by its wall clock. A step forward ends every lock at
// once; after a step back a vanished holder's name stays taken until that clock has
// caught up, or ForceRelease. A client's wall clock is trusted by nobody else, and by the
// client itself only to end a lease early. "With failover": nothing waits for replicas
// (WAIT would narrow the gap and not close it, since a replica without the lock can be
// promoted all the same), so a lock that the new primary lacks can be granted again.
//
// On both: Acquire and TryAcquire keep their limits even if the store never answers;
// TryAcquire fails with ErrHeld only if somebody held the name; an attempt of unknown
// outcome is undone in the background, also if its request arrives after the undo (on
// Redis such a request can cost one TTL if the undo could not be done within another);
// Release works with a dead context and with the store away; one failed renewal is no
// loss; a lost lease never becomes valid again; Close is bounded and leaves no goroutine.
//
// # Life of a lease
//
//	          Acquire                      Release
//	free ─────────────────► held ───────────────────────► released
//	 ▲                       │
//	 │                       │  deadline passed (Expired), key deleted or replaced
//	 │                       │  (Revoked, Stolen), session gone (SessionLost),
//	 │                       ▼  MaxHold, provider closed (Closed)
//	 └─────────────────── lost
//
// A lease is lost locally at the time of sending of the last good renewal, plus the
// granted TTL, minus drift and guard, whatever the store says later. Time is the larger
// of what the monotonic and the wall clock say: the first stands still while a machine
// is suspended, the second can be set back. Err compares the clocks on every call;
// Context ends a little later, when a goroutine has noticed. Renewal is due at a third
// of the validity and is repeated until the deadline.
//
// # Not promised
//
// That two parties never believe at once that they hold: a process paused between its
// last Err and its write writes late. That a token of Redis rises under two primaries,
// or if its counter is lost and its clock is set back. Any order between processes on
// Redis. That the acquire context's end frees the name: the work may still be winding
// down, so that takes Release or the rest of the TTL. Read-write locks, several names
// as one, and Redlock are left out on purpose.
//
// # Fencing
//
// Give the row that must not be written twice a number, and let the first statement of
// every transaction under the lease claim it:
//
//	UPDATE stock SET fence = $token WHERE sku = $sku AND fence <= $token  -- 0 rows: stale, roll back
//	UPDATE stock SET qty = qty - $n WHERE sku = $sku AND fence = $token AND qty >= $n
//
// The claim comes before anything is read, or an older holder's write that is already
// under way slips in between; "<=" because one holder writes many times. Tokens fit a
// BIGINT. Tokens of the two backends, and those of an etcd restored from a backup, are
// not comparable: fence with a number of the database's own (a term raised at each
// taking) if the store may change under it.
//
// # Stores
//
// Redis: one string a lock, an index and a fence counter a namespace, and for ten minutes a
// marker that refuses the late requests of an attempt in doubt, all under one hash tag
// ({namespace/lock}), so that a namespace is one slot of a cluster. Each change is one
// script that compares first. While the store answers at once, a caller makes the first
// call himself, in place of a goroutine that he could leave: it ends within 50 ms.
// Waiters are woken by publish, with the subscription confirmed before the deciding try,
// and by a timer of at most two seconds. Redis must be 6.2 or later, a cluster 7 or later.
//
// etcd: one key an acquisition, ordered by create revision, under one lease a process and
// TTL, kept alive by a loop of our own: concurrency.Session counts its deadline from the
// answer, and concurrency.Mutex can leave a ghost when its context ends.
package lockprovider
