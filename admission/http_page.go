package admission

import (
	"embed"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"
)

// The buyer page: plain files, nothing from elsewhere.
//
//go:embed page
var pageFiles embed.FS

// pageTypes are the files that a page loads, and their types.
var pageTypes = map[string]string{
	"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "api.js": "text/javascript; charset=utf-8",
	"card.js": "text/javascript; charset=utf-8", "words.js": "text/javascript; charset=utf-8",
}

// pagePolicy lets the page load its own files and ask its own address, nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage serves /shop/{activity}, a page on which buyers see the sale and buy, and
// the files that it loads. Names of activities have no dot, so they do not meet.
func (h *Handler) servePage(api huma.API) {
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "show-page", Method: http.MethodGet, Path: "/shop/{activity}",
		Summary: "A page for buyers: countdown, button, what became of the order",
		Parameters: []*huma.Param{
			{Name: "activity", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
			{Name: "currency", In: "query", Schema: &huma.Schema{Type: huma.TypeString, Description: "of the prices, such as EUR; without it none are shown"}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "The page", Content: map[string]*huma.MediaType{"text/html": {Schema: &huma.Schema{Type: huma.TypeString}}}}},
	})
	h.mux.HandleFunc("GET /shop/{activity}", func(w http.ResponseWriter, r *http.Request) {
		if !ValidName(r.PathValue("activity")) {
			h.problem(w, r, NewProblem(CodeNotFound, "There is no such activity."))
			return
		}
		writePage(w, "page.html", "text/html; charset=utf-8")
	})
	for name, kind := range pageTypes {
		h.mux.HandleFunc("GET "+path.Join("/shop", name), func(w http.ResponseWriter, _ *http.Request) { writePage(w, name, kind) })
	}
}

func writePage(w http.ResponseWriter, name, kind string) {
	data, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // a mistake in this build
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "max-age=60")
	_, _ = w.Write(data) // a buyer who is gone asks again
}
