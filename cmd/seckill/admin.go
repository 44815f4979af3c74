package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill/admission"
)

// adminTimeout bounds one request of an operator; an opening may have to wait for
// the settlement of what an earlier gate admitted.
const adminTimeout = 30 * time.Second

// adminHandler serves operators, probes and Prometheus.
func (n *node) adminHandler() http.Handler { return n.adminRoutes().handler() }

func (n *node) adminRoutes() *routes {
	mux := newRoutes(newDoor(n.config.operators()))
	n.registry.MustRegister(mux.door.refused)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", n.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
	serveProfiles(mux)
	serveConsole(mux)
	api := admission.NewAPI(mux, "Seckill operators", readVersion().Version)
	a := &adminAPI{operator: n.stores.operator(n.logger), changed: func(string) {}}
	if n.service != nil {
		a.changed = n.service.Changed
	}
	(&sessionAPI{door: mux.door}).register(api)
	a.register(api)
	(&auditAPI{stores: n.stores, config: n.config, jobs: n.jobs, turn: make(chan struct{}, 1)}).register(api)
	(&replayAPI{node: n}).register(api)
	(&jobAPI{jobs: n.jobs, notes: n.stores.ledger.Note}).register(api)
	(&dlqAPI{node: n}).register(api)
	n.live.register(mux, api)
	(&lockAPI{node: n}).register(api)
	(&orderAPI{node: n}).register(api)
	(&logAPI{ledger: n.stores.ledger}).register(api)
	documentRefusals(api)
	return mux
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

// ready says whether this process can do its work. A gate being rebuilt, or
// Postgres away, does not unready an API node: it answers truthfully meanwhile.
func (n *node) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	asks := []func(context.Context) error{n.stores.log.Ping}
	if n.service != nil {
		asks = append(asks, n.stores.gate.Ping)
	}
	if n.leases != nil {
		asks = append(asks, n.stores.ledger.Ping, func(ctx context.Context) error {
			_, err := n.leases.List(ctx, "member/")
			return err
		})
	}
	// Side by side: one that does not answer must not make the next look bad.
	errs := make([]error, len(asks))
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() { errs[i] = ask(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	writeText(w, http.StatusOK, "ready")
}
