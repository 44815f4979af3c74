package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	rampSale = "ramp"
	fullSale = "full"
	// fullUnits are more than any group sells in the time.
	fullUnits = 2_000_000_000
	// groupCall bounds a call of an operator or of the judge.
	groupCall = 30 * time.Second
)

// groupHouse is the processes of one group.
type groupHouse struct {
	services []*service // the first serves buyers
	extra    []*service // etcds of their own
	put      func(ctx context.Context, activity string, units int64) error
	schema   string
}

func (h *groupHouse) close() (err error) {
	for _, s := range append(h.services, h.extra...) {
		err = errors.Join(err, s.stop())
	}
	return err
}

func runGroup(ctx context.Context, words io.Writer, s *stand, name string, o groupOptions) (results []groupResult, err error) {
	h, err := openHouse(ctx, s, name, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	ramp := profile{constantProfile, float64(o.clients) / o.ramp.Seconds(), o.ramp}
	full := profile{constantProfile, 0, o.full}
	for _, sale := range []struct {
		name    string
		profile profile
		units   int64
		buyers  int64
	}{{rampSale, ramp, o.units, o.clients}, {fullSale, full, fullUnits, 1 << 30}} {
		if err := h.put(ctx, sale.name, sale.units); err != nil {
			return nil, fmt.Errorf("begin the sale %s: %w", sale.name, err)
		}
		send := sendOptions{profile: sale.profile, connections: o.connections, timeout: groupTimeout * 2, buyers: sale.buyers, seed: 1}
		r, err := h.measure(ctx, words, s, sale.name, send)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", sale.name, err)
		}
		r.group = name
		results = append(results, *r)
	}
	return results, nil
}

func (h *groupHouse) measure(ctx context.Context, words io.Writer, s *stand, sale string, o sendOptions) (*groupResult, error) {
	t := &target{public: "http://" + h.services[0].public, activities: []string{sale}, skus: []string{saleSKUName}}
	for _, one := range h.services {
		t.admins = append(t.admins, "http://"+one.admin)
	}
	waits, err := poolWaits(ctx, t.admins)
	if err != nil {
		return nil, err
	}
	out, err := sendOnly(ctx, words, t, o)
	if err != nil {
		return nil, err
	}
	after, err := poolWaits(ctx, t.admins)
	if err != nil {
		return nil, err
	}
	r := &groupResult{
		load: sale, perSecond: out.load.Rate(), p95: out.load.Latency.At(95), admitted: out.heard.accepted.Load(),
		unknown: out.load.Count("503") + out.load.Unknown, poolWaits: after - waits, gc: out.watch.last().gc,
		settled: perSecond(out.watch.last().settled, out.watch.reached()),
	}
	r.sold, r.oversold, err = judgeByPsql(ctx, s.servers.PostgresURL(), h.schema, sale)
	return r, err
}

func poolWaits(ctx context.Context, admins []string) (waits float64, err error) {
	for _, admin := range admins {
		families, err := readMetrics(ctx, admin)
		if err != nil {
			return 0, fmt.Errorf("read the metrics of %s: %w", admin, err)
		}
		for _, m := range families["seckill_ledger_pool_waits_total"].GetMetric() {
			waits += m.GetCounter().GetValue()
		}
	}
	return waits, nil
}

// judgeSQL asks what was sold and how much of it was not taken out of the stock.
const judgeSQL = `select sold, sold - (total - stock) from skus s, lateral (select coalesce(sum(quantity), 0) as sold from orders o ` +
	`where o.activity_id = s.activity_id and status in ('confirmed', 'paid', 'pending_payment')) o where s.activity_id = 'SALE'`

// judgeByPsql believes nobody but the database, asked by its own client.
func judgeByPsql(ctx context.Context, postgresURL, schema, sale string) (sold, oversold int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupCall)
	defer cancel()
	cmd := exec.CommandContext(ctx, "psql", postgresURL, "-XAtqF", " ", "-c", strings.Replace(judgeSQL, "SALE", sale, 1))
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+schema)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	said, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("judge the sale %s with psql: %w: %s", sale, err, wrong.String())
	}
	if _, err := fmt.Sscan(string(said), &sold, &oversold); err != nil {
		return 0, 0, fmt.Errorf("judge the sale %s: psql says %q", sale, said)
	}
	return sold, oversold, nil
}

// openHouse starts the processes of a group, in a namespace of its own.
func openHouse(ctx context.Context, s *stand, name string, o groupOptions) (h *groupHouse, err error) {
	h = &groupHouse{schema: "group_" + strings.ToLower(name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	switch name {
	case "A", "B", "C":
		return h, h.openOther(ctx, s, name)
	case "D":
		return h, h.openOurs(ctx, s, o.program, "redis")
	case "F":
		if err := h.openOurs(ctx, s, o.program, "etcd"); err != nil {
			return h, err
		}
		return h, h.openCompany(ctx, s, o.program)
	}
	return h, h.openOurs(ctx, s, o.program, "etcd")
}

// openOther starts one of the groups that are not this system.
func (h *groupHouse) openOther(ctx context.Context, s *stand, name string) error {
	lab, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env := append(s.servers.Env("redis"), "SECKILL_NAMESPACE="+h.schema)
	serving, err := startServing(ctx, exec.Command(lab, "groups", "serve", "--group", name), env, filepath.Join(s.dir, h.schema+".log"))
	if err != nil {
		return err
	}
	h.services = append(h.services, serving)
	h.put = func(ctx context.Context, activity string, units int64) error {
		return putUnits(ctx, "http://"+serving.admin+"/sales/"+activity, units)
	}
	return nil
}

func putUnits(ctx context.Context, url string, units int64) error {
	ctx, cancel := context.WithTimeout(ctx, groupCall)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(strconv.FormatInt(units, 10)))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return nil
}

// openOurs starts this system, both roles in one process.
func (h *groupHouse) openOurs(ctx context.Context, s *stand, program, lock string) error {
	serving, err := s.serve(ctx, program, lock, "SECKILL_NAMESPACE="+h.schema)
	if err != nil {
		return err
	}
	h.services = append(h.services, serving)
	h.put = func(ctx context.Context, activity string, units int64) error {
		return serving.openSale(ctx, activity, "Group", saleSKUName, units)
	}
	return nil
}

// openCompany adds two workers, each with an etcd of its own, so that nobody's lease keeps anybody away: what
// then still holds is what the ledger guards.
func (h *groupHouse) openCompany(ctx context.Context, s *stand, program string) error {
	for n := range 2 {
		endpoint, err := h.extraEtcd(ctx, s, n)
		if err != nil {
			return fmt.Errorf("start another etcd: %w", err)
		}
		worker, err := s.serve(ctx, program, "etcd", "SECKILL_NAMESPACE="+h.schema, "SECKILL_ROLES=worker", "SECKILL_ETCD_ENDPOINTS="+endpoint)
		if err != nil {
			return err
		}
		h.services = append(h.services, worker)
	}
	return nil
}

func (h *groupHouse) extraEtcd(ctx context.Context, s *stand, n int) (endpoint string, err error) {
	lab, err := os.Executable()
	if err != nil {
		return "", err
	}
	var addresses [2]string
	for i := range addresses {
		port, err := quietPort()
		if err != nil {
			return "", err
		}
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	name := fmt.Sprint("extra-", n)
	cmd := exec.Command(lab, "server", "etcd", "--dir", filepath.Join(s.dir, name), "--name", name, "--listen", addresses[0], "--peer", addresses[1])
	cmd.SysProcAttr = serviceAttributes()
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd.Stderr = log
	etcd := &service{logPath: log.Name(), gone: make(chan struct{})}
	if err := etcd.start(cmd); err != nil {
		return "", err
	}
	h.extra = append(h.extra, etcd)
	return addresses[0], awaitDial(ctx, addresses[0])
}

// awaitDial waits until somebody listens there.
func awaitDial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, groupCall)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
