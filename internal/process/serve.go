package process

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// serve answers on the address that a flag gives until stop is called. An answer may take so long, until it is read;
// 0: that is the handler's.
func serve(
	flag, address string, h http.Handler, answer time.Duration, log zerolog.Logger,
) (stop func(), err error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: answer, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Str("flag", flag).Msg("a server ended")
		}
	}()
	log.Info().Str("flag", flag).Stringer("address", ln.Addr()).Msg("serving")
	return func() { _ = s.Close() }, nil
}
