package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdTimeout bounds the question to one member.
const etcdTimeout = 2 * time.Second

// etcdAway is what comes of an etcd that does not answer.
const etcdAway = "no order is settled until it is back; orders are accepted meanwhile"

func lookAtEtcd(ctx context.Context, c Config, out *checks, _ *clockReadings) {
	if c.LockBackend != backendEtcd {
		out.ok("used", "no: the leases are in %s", c.LockBackend)
		return
	}
	if len(c.EtcdEndpoints) == 0 {
		out.finding(serious, "reachable", "etcd.endpoints has no value", etcdAway, "SECKILL_ETCD_ENDPOINTS=HOST:2379,…")
		return
	}
	client, err := dialEtcd(c)
	if err != nil {
		out.away(err, etcdAway, "SECKILL_ETCD_ENDPOINTS")
		return
	}
	defer func() { _ = client.Close() }()
	status := make([]*clientv3.StatusResponse, len(c.EtcdEndpoints))
	errs := make([]error, len(c.EtcdEndpoints))
	var asking sync.WaitGroup
	for i, endpoint := range c.EtcdEndpoints {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
			defer cancel()
			status[i], errs[i] = client.Status(ctx, endpoint)
		})
	}
	asking.Wait()
	judgeMembers(out, c.EtcdEndpoints, status, errs)
	if out.reached {
		judgeEtcdCluster(ctx, client, out)
	}
}

func dialEtcd(c Config) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: c.EtcdEndpoints, Username: c.EtcdUser, Password: c.EtcdPassword,
		DialTimeout: etcdTimeout, Logger: zap.NewNop(),
	}
	for _, e := range c.EtcdEndpoints {
		if strings.HasPrefix(e, "https://") {
			secure, err := c.storesTLS()
			if err != nil {
				return nil, err
			}
			config.TLS = secure
		}
	}
	return clientv3.New(config)
}

func judgeMembers(out *checks, endpoints []string, status []*clientv3.StatusResponse, errs []error) {
	versions := map[string]bool{}
	for i, endpoint := range endpoints {
		s := status[i]
		if errs[i] != nil {
			out.finding(serious, "reachable", endpoint+" does not answer: "+oneLine(errs[i].Error()), "a lost majority: "+etcdAway, "start it, or check SECKILL_ETCD_ENDPOINTS")
			continue
		}
		out.reached = true
		versions[s.Version] = true
		switch {
		case versionBelow(s.Version, 3, 5):
			out.finding(warning, "member", endpoint+" is etcd "+s.Version, "leases may be lost or outlive their time by known defects", "etcd 3.5 or later")
		case s.Leader == 0:
			out.finding(serious, "member", endpoint+" has no leader", etcdAway, "bring a majority of the members back")
		case s.DbSizeQuota > 0 && s.DbSize > s.DbSizeQuota/5*4:
			out.finding(warning, "member", fmt.Sprintf("%s uses %d of its quota of %d bytes", endpoint, s.DbSize, s.DbSizeQuota), "a full etcd refuses leases: "+etcdAway,
				"etcdctl compact and etcdctl defrag, or a higher --quota-backend-bytes")
		default:
			out.ok("member", "%s: etcd %s, %d of %d bytes", endpoint, s.Version, s.DbSize, s.DbSizeQuota)
		}
	}
	if len(versions) > 1 {
		out.finding(note, "member", fmt.Sprintf("%d versions side by side", len(versions)), "nothing, during an upgrade", "bring all members to one version")
	}
}

func judgeEtcdCluster(ctx context.Context, client *clientv3.Client, out *checks) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	alarms, err := client.AlarmList(ctx)
	switch {
	case err != nil:
		out.unknown("alarms", "they cannot be listed: "+oneLine(err.Error()), "an etcd majority, and a user that may list alarms")
	case len(alarms.Alarms) > 0:
		out.finding(serious, "alarms", alarms.Alarms[0].Alarm.String(), "leases are refused: "+etcdAway, "for NOSPACE: etcdctl compact, etcdctl defrag, then etcdctl alarm disarm")
	default:
		out.ok("alarms", "none")
	}
	members, err := client.MemberList(ctx)
	switch {
	case err != nil:
		out.unknown("members", "they cannot be listed: "+oneLine(err.Error()), "an etcd majority")
	case len(members.Members) < 3:
		// What a machine of its own is for; no promise needs more.
		out.ok("members", "%d: settlement stops while it is away", len(members.Members))
	default:
		out.ok("members", "%d", len(members.Members))
	}
}
