package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"seckill/admission"
)

// openRoutes are the only ones that answer without a token: probes, metrics, the
// document, the files of the console, and its login.
var openRoutes = map[string]bool{
	"GET /healthz": true, "GET /readyz": true, "GET /metrics": true,
	"GET /openapi.json": true, "GET /openapi-3.0.json": true, "GET /openapi.yaml": true, "GET /openapi-3.0.yaml": true,
	"GET /console": true, "GET /console/": true,
	"POST " + sessionPath: true,
}

// routes is the mux of the admin address. Whatever is put on it is behind the door,
// unless it is one of openRoutes, and ends after adminTimeout, unless it is a stream.
type routes struct {
	*http.ServeMux
	door     *door
	patterns []string // all that were put on it
}

func newRoutes(d *door) *routes {
	mux := http.NewServeMux()
	admission.Unknown(mux)
	return &routes{ServeMux: mux, door: d}
}

// Handle puts a handler on the mux.
func (r *routes) Handle(pattern string, h http.Handler) { r.HandleFunc(pattern, h.ServeHTTP) }

// HandleFunc puts a handler on the mux.
func (r *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.stream(pattern, func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), adminTimeout)
		defer cancel()
		h(w, req.WithContext(ctx))
	})
}

// stream puts a handler on the mux that bounds its time itself.
func (r *routes) stream(pattern string, h http.HandlerFunc) {
	r.patterns = append(r.patterns, pattern)
	if !openRoutes[pattern] {
		h = r.door.guard(h)
	}
	r.ServeMux.HandleFunc(pattern, h)
}

// handler answers with the headers that browsers need, and what is unknown with a
// problem. A request of another site's page that would change something is refused
// whatever it carries: the login has no other protection.
func (r *routes) handler() http.Handler {
	sameSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		admission.SecureHeaders(w.Header(), req)
		if strings.HasPrefix(req.URL.Path, "/admin/") {
			w.Header().Set("Cache-Control", "no-store")
		}
		if err := sameSite.Check(req); err != nil {
			r.door.refuse(admission.NewProblem(admission.CodeForbidden, "A page of another site may not send this: %v.", err)).Write(w)
			return
		}
		admission.ServeOrProblem(r.ServeMux, w, req)
	})
}

// documentRefusals adds to every route behind the door, and to the login, what the door
// answers there.
func documentRefusals(api huma.API) {
	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op == nil || op.Responses["401"] == nil {
				continue
			}
			op.Responses["429"] = &huma.Response{Description: http.StatusText(http.StatusTooManyRequests), Content: op.Responses["401"].Content}
			if op != item.Get {
				op.Responses["403"] = &huma.Response{Description: http.StatusText(http.StatusForbidden), Content: op.Responses["401"].Content}
			}
		}
	}
}
