package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// monitorTimeout bounds the question to the monitoring address of NATS.
const monitorTimeout = 800 * time.Millisecond

// natsSyncDefault is the server's own, if it shows none.
const natsSyncDefault = 2 * time.Minute

func lookAtNATS(ctx context.Context, c Config, out *checks, _ *clockReadings) {
	const breaks = "no order is accepted (503), none is settled"
	nc, err := connectNATS(c, "seckill doctor")
	if err != nil {
		out.away(err, breaks, "SECKILL_NATS_URL")
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		out.away(fmt.Errorf("JetStream: %w", err), breaks, "SECKILL_NATS_URL, and that the server runs with JetStream for this account")
		return
	}
	out.reached = true
	out.ok("reachable", "%s answers, with JetStream", nc.ConnectedServerName())
	judgeNATSVersion(out, nc.ConnectedServerVersion())
	judgePayload(out, nc.MaxPayload())
	name := strings.ToUpper(c.Namespace) + "_ORDERS"
	stream, err := js.Stream(ctx, name)
	var info *jetstream.StreamInfo
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		out.unknown("order log", "there is no stream "+name+" yet", "start seckill serve once, then ask again")
	case err != nil:
		out.unknown("order log", "stream "+name+" cannot be read: "+oneLine(err.Error()), "ask again when JetStream has a leader for it")
	default:
		info = stream.CachedInfo()
	}
	server, err := askMonitor(ctx, c.NATSMonitorURL)
	judgeSync(out, c, name, info, nc, server, err)
	if info == nil {
		return
	}
	judgeStream(out, c, info.Config)
	judgeSpace(out, info, server)
	lookAtConsumers(ctx, c, stream, out)
}

func judgeNATSVersion(out *checks, version string) {
	if versionBelow(version, 2, 14) {
		out.finding(serious, "version", "NATS "+version, "G3: before 2.14 a consumer cannot be set to the ledger's position, so accepted orders are not settled",
			"NATS 2.14 or later on every server")
		return
	}
	out.ok("version", "%s", version)
}

// versionBelow compares the first two numbers of a version.
func versionBelow(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v")+".", ".", 3)
	a, _ := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return a < major || a == major && b < minor
}

func judgePayload(out *checks, most int64) {
	const need = admission.MaxBatchBytes * 5 / 4
	if most < need {
		out.finding(warning, "max_payload", fmt.Sprintf("%d bytes", most), "503 in the busiest moments: large batches are refused by the log", "max_payload: 1MB in the NATS configuration")
		return
	}
	out.ok("max_payload", "%d bytes", most)
}

// varz is what the monitoring address tells of a NATS server.
type varz struct {
	ServerID   string `json:"server_id"`
	ServerName string `json:"server_name"`
	JetStream  struct {
		Config *struct {
			StoreDir     string        `json:"store_dir"`
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
		} `json:"config"`
	} `json:"jetstream"`
}

var errNoMonitor = errors.New("no monitoring address is set")

func askMonitor(ctx context.Context, address string) (*varz, error) {
	if address == "" {
		return nil, errNoMonitor
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/varz", nil)
	if err != nil {
		return nil, errors.New("the monitoring address is no URL")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error // whose text has the address, perhaps with a password
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("the monitoring address does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	v := new(varz)
	err = json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(v)
	if err != nil || resp.StatusCode != http.StatusOK || v.ServerID == "" {
		return nil, fmt.Errorf("the monitoring address answers %s, which is not what a NATS server says at /varz", resp.Status)
	}
	return v, nil
}

// judgeSync says what an acknowledgement of the log is worth.
func judgeSync(out *checks, c Config, name string, info *jetstream.StreamInfo, nc *nats.Conn, server *varz, err error) {
	const check = "order log on disk"
	replicas := c.LogReplicas
	keeper := nc.ConnectedServerName()
	if info != nil {
		replicas = info.Config.Replicas
		if info.Cluster != nil && info.Cluster.Leader != "" {
			keeper = info.Cluster.Leader
		}
	}
	give := "SECKILL_NATS_MONITOR_URL=http://HOST:8222 of server " + keeper + ", which needs http: 8222 in its configuration"
	switch {
	case replicas >= 3:
		out.ok(check, "%d replicas: a majority has an order before its buyer is told", replicas)
	case err != nil:
		out.unknown(check, "one copy of the log, and whether NATS syncs it cannot be seen: "+oneLine(err.Error())+
			"; if it does not, a 202 survives a killed process but not a power cut", give).lasting()
	case server.ServerName != keeper && server.ServerID != nc.ConnectedServerId():
		out.unknown(check, "the monitoring address is that of server "+server.ServerName+", and the log is on "+keeper, give).lasting()
	case server.JetStream.Config == nil:
		out.unknown(check, "server "+server.ServerName+" does not show its JetStream configuration", give).lasting()
	case server.JetStream.Config.SyncAlways:
		out.ok(check, "NATS syncs every message before it acknowledges it (sync_interval: always)")
	default:
		every := server.JetStream.Config.SyncInterval
		if every <= 0 {
			every = natsSyncDefault
		}
		out.finding(serious, check, fmt.Sprintf("one copy of the log, which NATS syncs to disk every %v", every),
			fmt.Sprintf("G3: a 202 survives kill -9 of NATS, but a power cut or a crash of the machine can lose the orders accepted in the last %v", every),
			"jetstream { sync_interval: always } in the NATS configuration, and a restart of NATS; or three servers with SECKILL_LOG_REPLICAS=3 and nats stream edit "+name+" --replicas 3",
		).lasting()
	}
}
