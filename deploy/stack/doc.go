// Package stack runs the four real servers of the system on loopback: Redis and
// Postgres from the system's own programs, NATS JetStream and etcd from their Go
// modules inside children of bin/seckill-lab. It is for tests and the lab, never
// for production.
//
// # Promises
//
//   - Each server is a process of its own, listening on 127.0.0.1 only, on a port
//     that was free and is none of the standard ones, with its data in a folder of
//     its own. It can be killed with -9 at any moment and started again on its old
//     data and port.
//   - A server counts as started when it has answered a real question and has been
//     recognised as ours, not as another stack's server that won the port.
//   - Data is as durable as each server can make it: Redis appends to its log and
//     syncs every second, Postgres and NATS sync before they answer, etcd always
//     does.
//   - Close leaves no process, no shared memory and no folder outside Config.Dir,
//     within a stated time. So does the death of the process that opened the stack,
//     however it dies: on Linux the kernel signals the children, and everywhere a
//     guard process sees its pipe close, ends what is left and tidies up.
//
// # Not promised
//
// There are no passwords: who can open a loopback connection on this machine can
// read and change everything. Kill -9 takes the process, not the page cache, so it
// shows what a crash of a server loses and not what a power cut loses.
package stack
