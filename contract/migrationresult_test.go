package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressInWords(t *testing.T) {
	p := MigrationProgress{Total: 4 << 30, Remaining: 1 << 30, Processed: 3<<30 + 1<<29, Iteration: 2, Rate: 45 << 20,
		DirtyRate: 12<<20 + 1<<19, DowntimeMs: 140}
	require.Equal(t, "75 % of 4.0 GiB copied, 1.0 GiB remaining, 3.5 GiB processed; iteration 2 at 45.0 MiB/s, dirty "+
		"rate 12.5 MiB/s, expected downtime 140 ms", p.Text())
	p.Mode = ModePaused
	require.Contains(t, p.Text(), "; the guest is paused until the rest is copied")
	require.Equal(t, "the copy begins", MigrationProgress{UID: "x", Iteration: 1}.Text(), "QEMU knows no size yet")
}

// TestHowMuchIsCopied: the percentage is between 0 and 100, whatever a launcher reports.
func TestHowMuchIsCopied(t *testing.T) {
	for _, c := range []struct{ total, remaining, want int64 }{
		{0, 0, 0}, {0, 5, 0}, {-1, 5, 0}, {200, 200, 0}, {200, 50, 75}, {200, 0, 100}, {200, 300, 0}, {200, -1, 100},
		{1<<63 - 1, 1, 100},
	} {
		require.Equal(t, c.want, MigrationProgress{Total: c.total, Remaining: c.remaining}.Copied(), "%+v", c)
	}
}
