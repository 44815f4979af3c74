package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill/admission"
)

// adminTimeout bounds one request of an operator; an opening may have to wait for
// the settlement of what an earlier gate admitted.
const adminTimeout = 30 * time.Second

// adminHandler serves operators, probes and Prometheus.
func (n *node) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", n.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
	api := admission.NewAPI(mux, "Seckill operators", readVersion().Version)
	a := &adminAPI{operator: n.stores.operator(n.logger)}
	guard := huma.Middlewares{bearer(n.config.AdminToken)}
	a.register(api, guard)
	books := &auditAPI{stores: n.stores, config: n.config, turn: make(chan struct{}, 1)}
	books.register(api, guard)
	(&lockAPI{node: n}).register(api, guard)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
		defer cancel()
		admission.ServeOrProblem(mux, w, r.WithContext(ctx))
	})
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
	err := n.stores.log.Ping(ctx)
	if n.service != nil {
		err = errors.Join(err, n.stores.gate.Ping(ctx))
	}
	if n.leases != nil {
		_, lockErr := n.leases.List(ctx, "member/")
		err = errors.Join(err, n.stores.ledger.Ping(ctx), lockErr)
	}
	if err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	writeText(w, http.StatusOK, "ready")
}

// bearer lets in who has the token. Without a token nobody is let in.
func bearer(token string) func(huma.Context, func(huma.Context)) {
	want := sha256.Sum256([]byte(token))
	return func(ctx huma.Context, next func(huma.Context)) {
		scheme, given, _ := strings.Cut(ctx.Header("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
			next(ctx)
			return
		}
		p := admission.NewProblem(admission.CodeUnauthenticated, "Send the admin token as a bearer token (SECKILL_ADMIN_TOKEN of this process).")
		p.Header = map[string]string{"WWW-Authenticate": `Bearer realm="seckill admin"`}
		_, w := humago.Unwrap(ctx)
		p.Write(w)
	}
}
