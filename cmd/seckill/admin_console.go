package main

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"seckill/admission"
)

// The console: built from the sources beside it, nothing from elsewhere.
//
//go:embed all:console/dist
var consoleFiles embed.FS

// consolePolicy lets the console load its own files and ask its own address, nothing else.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveConsole serves the files of the console. What names no file is a place inside
// the console and gets its page.
func serveConsole(mux *routes) {
	files, err := fs.Sub(consoleFiles, "console/dist")
	if err != nil {
		panic(err) // a mistake in this build
	}
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("GET /console/", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/console/")
		info, err := fs.Stat(files, path.Clean(name))
		switch {
		case err == nil && !info.IsDir():
		case path.Ext(name) != "":
			admission.NewProblem(admission.CodeNotFound, "The console has no file %.200s.", name).Write(w)
			return
		default:
			name = "index.html"
		}
		age := "no-cache"
		if strings.HasPrefix(name, "assets/") { // named by their content
			age = "public, max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", age)
		w.Header().Set("Content-Security-Policy", consolePolicy)
		http.ServeFileFS(w, r, files, name)
	})
}
