// Package page is the chat page: HTML, style and script from the binary, which load
// nothing from elsewhere.
package page

import (
	"embed"
	"net/http"
)

//go:embed static
var files embed.FS

// policy lets the page talk to its own server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler answers / with the page, and /page/NAME with its parts.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "static/index.html"
		if r.URL.Path != "/" {
			name = "static/" + r.URL.Path[len("/page/"):]
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, name)
	})
}
