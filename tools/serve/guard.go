package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// guard is what every request passes: is it for this server, may its page ask, has it
// the key, is it small enough.
func (s *Server) guard(next http.Handler) http.Handler {
	key := sha256.Sum256([]byte(s.o.APIKey))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail := writeOpenAIError
		if strings.HasPrefix(r.URL.Path, "/api/") {
			fail = writeOllamaError
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if s.o.Local && !localHost(r.Host) {
			fail(w, &apiError{http.StatusForbidden, "invalid_request_error", "", "host_not_allowed", "this server answers requests for the local host only"})
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !sameHost(origin, r.Host) {
			if !slices.Contains(s.o.CORS, origin) && !slices.Contains(s.o.CORS, "*") {
				fail(w, &apiError{http.StatusForbidden, "invalid_request_error", "", "origin_not_allowed", "pages of " + origin + " may not use this server: start it with --cors to allow that"})
				return
			}
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Methods", "GET, POST")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		if s.o.APIKey != "" && !open(r.URL.Path) {
			given := r.Header.Get("Authorization")
			if scheme, key, ok := strings.Cut(given, " "); ok && strings.EqualFold(scheme, "Bearer") {
				given = key
			}
			sum := sha256.Sum256([]byte(given))
			if subtle.ConstantTimeCompare(sum[:], key[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				fail(w, &apiError{http.StatusUnauthorized, "authentication_error", "", "invalid_api_key", "the API key is missing or wrong"})
				return
			}
		}
		if err := s.readBody(w, r); err != nil {
			fail(w, asAPIError(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readBody reads the body of a request, within the limits of size and time, so that
// nobody is answered while still talking.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(s.bodyTime)) // where the connection has one
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	if err != nil {
		w.Header().Set("Connection", "close") // nobody waits for the rest
	} else {
		_ = c.SetReadDeadline(time.Time{})
	}
	var size *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{http.StatusRequestTimeout, "invalid_request_error", "", "body_timeout", "the request did not come within " + s.bodyTime.String()}
	case err != nil && !errors.As(err, &size):
		return invalid("", "the request broke off: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return err
}

// localHost reports whether a Host header means this machine by its own names.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
}

// sameHost reports whether an origin is this server's own.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}
