package process

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLevelFollowsSettings(t *testing.T) {
	var out bytes.Buffer
	level := newLevel(zerolog.WarnLevel)
	log := withLevel(zerolog.New(&out), level)
	sampled := log.With().Str("of", "sampled").Logger().Sample(&zerolog.BasicSampler{N: 1})
	lines := func() string {
		out.Reset()
		for _, l := range []zerolog.Logger{log.With().Str("of", "plain").Logger(), sampled} {
			l.Trace().Msg("trace")
			l.Debug().Msg("debug")
			l.Info().Msg("info")
			l.Warn().Msg("warn")
			l.Error().Msg("error")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			_, message, _ := strings.Cut(line, `"message":"`)
			got = append(got, strings.TrimSuffix(strings.TrimSpace(message), `"}`))
		}
		return strings.Join(got, " ")
	}
	require.Equal(t, "warn error warn error", lines())
	level.Set(zerolog.DebugLevel)
	require.Equal(t, "debug info warn error debug info warn error", lines())
	level.Set(zerolog.TraceLevel)
	require.Equal(t, "trace debug info warn error trace debug info warn error", lines())
	level.Set(zerolog.Disabled)
	require.Equal(t, "warn error warn error", lines(), "no less than the flag asks for")
}

func TestNewLoggerHasLevel(t *testing.T) {
	log, err := NewLogger("x", "error", "json")
	require.NoError(t, err)
	require.Nil(t, log.Warn())
	require.NotNil(t, log.Error())
	_, err = NewLogger("x", "loud", "json")
	require.ErrorContains(t, err, "--log-level")
}
