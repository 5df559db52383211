package launcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/guest"
)

func TestResumptionFollowsPause(t *testing.T) {
	var r resumption
	for why, resumes := range map[guest.PauseReason]bool{
		guest.ByUser: false, guest.ByIOError: true, guest.ByNoSpace: true, guest.ByMigration: false,
		guest.ByOther: false, "": false,
	} {
		r.follow(why)
		require.Equal(t, resumes, r.due != nil, why)
		r.follow("")
		require.Nil(t, r.due)
	}
}

// TestResumptionPauses: they are KubeVirt's, and start over once the guest has run for a while.
func TestResumptionPauses(t *testing.T) {
	var r resumption
	now := time.Now()
	var pauses []time.Duration
	for range 7 {
		d := r.nextDelay(now)
		pauses = append(pauses, d)
		now = now.Add(d)
		r.last = now
	}
	require.Equal(t, []time.Duration{
		10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 3 * time.Minute,
		3 * time.Minute,
	}, pauses)
	require.Equal(t, 10*time.Second, r.nextDelay(now.Add(2*longestResumption+1)))
}
