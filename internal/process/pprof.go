package process

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/rs/zerolog"
)

// servePprof serves /debug/pprof on a loopback address, so that only users who may forward ports to the pod can profile
// it. Profiles reveal the process's work, and cost it time.
func servePprof(address string, log zerolog.Logger) (stop func(), err error) {
	if err := loopback(address); err != nil {
		return nil, fmt.Errorf("--pprof-address: %w", err)
	}
	return serve("pprof-address", address, pprofHandler(), 0, log) // the request sets the length of a profile
}

// loopback returns an error for an address that can be reached from elsewhere.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: give IP:port, such as 127.0.0.1:6060", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address; profiles are reached by port-forwarding to this process: "+
			"give 127.0.0.1:6060 or [::1]:6060", host)
	}
	return nil
}

func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and the other named profiles as well
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
