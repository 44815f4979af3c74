package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/rs/cors"

	"seckill/admission"
)

// identify is how buyers are told apart. The keys of their tokens are read by then,
// and again and again until ctx ends.
func (n *node) identify(ctx context.Context, work *sync.WaitGroup) (admission.Identify, error) {
	c := n.config
	if c.AuthMode != authJWT || !c.hasRole(roleAPI) {
		return admission.HeaderIdentity(c.AuthTrustedProxies), nil
	}
	keys, err := c.openKeys(ctx)
	if err != nil {
		return nil, err
	}
	if keys != nil {
		work.Go(func() { keys.Run(ctx, n.logger) })
	}
	return admission.JWTIdentity(admission.JWTConfig{
		Secret: []byte(c.AuthJWTSecret), Keys: keys, Issuer: c.AuthJWTIssuer, Audience: c.AuthJWTAudience, Leeway: c.AuthJWTLeeway,
	}), nil
}

// funnel is the stage before the gate. A deny list is read by then, and again whenever
// it changes, until ctx ends.
func (n *node) funnel(ctx context.Context, work *sync.WaitGroup) (*admission.Funnel, error) {
	c := n.config
	f := admission.FunnelConfig{
		InFlight: c.HTTPInFlight, Proxies: c.AuthTrustedProxies, TicketFor: c.TicketActivities,
		Buyer:   admission.Rate{Every: c.LimitBuyer, Burst: c.LimitBuyerBurst},
		Address: admission.Rate{Every: c.LimitAddress, Burst: c.LimitAddressBurst},

		TicketSecrets: keyBytes(c.TicketSecrets),
	}
	if c.LimitCPU > 0 && c.hasRole(roleAPI) {
		cpu, err := admission.OpenCPU(c.LimitCPU)
		if err != nil {
			return nil, err
		}
		f.CPU = cpu
		work.Go(func() { cpu.Run(ctx, n.logger) })
	}
	if c.DenyList != "" && c.hasRole(roleAPI) {
		deny, err := admission.OpenDeny(c.DenyList)
		if err != nil {
			return nil, wrongUsage(err)
		}
		f.Denied = deny
		work.Go(func() { deny.Run(ctx, n.logger) })
	}
	return admission.NewFunnel(f), nil
}

func keyBytes(texts []string) (keys [][]byte) {
	for _, text := range texts {
		keys = append(keys, []byte(text))
	}
	return keys
}

// openKeys reads the key set of the tokens, and waits for its place up to the start
// time-out; nil if there is none.
func (c Config) openKeys(ctx context.Context) (keys *admission.Keys, err error) {
	if c.AuthJWTJWKS == "" {
		return nil, nil
	}
	secure, err := c.storesTLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, DisableKeepAlives: true}}
	err = answered(ctx, "the place of the tokens' keys", "SECKILL_AUTH_JWT_JWKS", func(ctx context.Context) (err error) {
		keys, err = admission.OpenKeys(ctx, c.AuthJWTJWKS, client)
		return err
	})
	return keys, err
}

// allowOrigins lets pages of other origins call the buyers' routes, with a bearer
// token and without cookies. Without origins nothing is added.
func allowOrigins(origins []string, h http.Handler) http.Handler {
	if len(origins) == 0 {
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins, AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost},
		AllowedHeaders: []string{"Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Seckill-Ticket"},
		ExposedHeaders: []string{"ETag", "Location", "Retry-After"}, MaxAge: 600,
	}).Handler(h)
}
