// Package lockprovider grants leases on named resources, over etcd or Redis.
//
// A lease is advice: a paused process, a partition or a jumping clock can leave two
// parties convinced that they hold it. Anything that must not happen twice has to
// be guarded where it happens.
package lockprovider
