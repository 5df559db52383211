package process

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/rs/zerolog"
)

// servePprof serves /debug/pprof on a loopback address: whoever may forward ports of the pod may profile, and nobody
// else. Profiles tell what the process works on, and making them costs it time.
func servePprof(address string, log zerolog.Logger) (stop func(), err error) {
	if err := loopback(address); err != nil {
		return nil, fmt.Errorf("--pprof-address: %w", err)
	}
	return serve("pprof-address", address, pprofHandler(), 0, log) // a profile takes as long as it was asked to
}

// loopback says what is wrong with an address that others could reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: give IP:port, such as 127.0.0.1:6060", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is no loopback address: profiles are for those who may forward ports to this process: "+
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
