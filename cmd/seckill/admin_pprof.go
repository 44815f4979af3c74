package main

import (
	"net/http"
	"net/http/pprof"

	"seckill/admission"
)

// serveProfiles serves /debug/pprof to operators who may change things: a profile takes
// a share of the processor for as long as it runs, which adminTimeout bounds. The
// command line is left out, since flags may hold secrets.
func serveProfiles(mux *routes) {
	for path, handler := range map[string]http.HandlerFunc{
		"GET /debug/pprof":           pprof.Index,
		"GET /debug/pprof/{profile}": pprof.Index,
		"GET /debug/pprof/profile":   pprof.Profile,
		"GET /debug/pprof/trace":     pprof.Trace,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if callerOf(r.Context()).readOnly {
				admission.NewProblem(admission.CodeForbidden, "This token may only read, and a profile takes a share of the processor.").Write(w)
				return
			}
			handler(w, r)
		})
	}
}
