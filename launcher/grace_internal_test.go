package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/lifecycle"
)

func TestGracePeriodBegins(t *testing.T) {
	for length, want := range map[time.Duration]lifecycle.Input{0: lifecycle.StopNow, time.Minute: lifecycle.Stop} {
		g := gracePeriod{length: length, terminated: t.Context().Done()}
		require.Equal(t, want, g.begin())
		require.Nil(t, g.terminated, "it is received once")
	}
}

// TestGracePeriodIsShortened: the grace period is shortened before it begins or while it runs; a longer one changes
// nothing.
func TestGracePeriodIsShortened(t *testing.T) {
	for name, c := range map[string]struct {
		before, during time.Duration // 0: not
		want           lifecycle.Input
		expires        time.Duration // since it began
	}{
		"not at all":          {expires: time.Minute},
		"before":              {before: 20 * time.Second, expires: 20 * time.Second},
		"before, to longer":   {before: time.Hour, expires: time.Minute},
		"during":              {during: 20 * time.Second, expires: 20 * time.Second},
		"during, to longer":   {during: time.Hour, expires: time.Minute},
		"during, to the past": {during: 5 * time.Second, want: lifecycle.StopNow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gracePeriod{length: time.Minute}
				if c.before > 0 {
					require.Empty(t, g.shorten(c.before))
				}
				g.begin()
				begun := time.Now()
				time.Sleep(10 * time.Second)
				if c.during > 0 {
					require.Equal(t, c.want, g.shorten(c.during))
				}
				if c.want != "" {
					require.Nil(t, g.expired)
					return
				}
				<-g.expired
				require.Equal(t, c.expires, time.Since(begun))
				require.Equal(t, lifecycle.GracePeriodExpired, g.expire())
				require.Nil(t, g.expired)
			})
		})
	}
}
