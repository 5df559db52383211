package process

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// serve answers on the address that a flag has until stop is called. writeTimeout bounds the time until a client has
// read its answer; 0: there is no limit but the handler's.
func serve(
	flag, address string, h http.Handler, writeTimeout time.Duration, log zerolog.Logger,
) (stop func(), err error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: writeTimeout, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Str("flag", flag).Msg("failed to serve")
		}
	}()
	log.Info().Str("flag", flag).Stringer("address", ln.Addr()).Msg("serving")
	return func() { _ = s.Close() }, nil
}
