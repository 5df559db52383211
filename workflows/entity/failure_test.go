package entity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

func TestFailuresCountOn(t *testing.T) {
	now := time.Unix(1000, 0)
	var f *Failure
	require.False(t, f.Holds("write", now))
	require.Nil(t, f.Succeeded("write"))
	require.Nil(t, f.RetryAfter(now))
	for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		f = f.Failed(now, "write", "FailedUpdate", errors.New("refused"))
		require.Equal(t, n+1, f.Count)
		require.Equal(t, now.Add(pause), f.RetryAt)
	}
	require.True(t, f.Holds("write", now))
	require.False(t, f.Holds("write", f.RetryAt))
	require.False(t, f.Holds("delete", now), "another step does not wait")
	require.Same(t, f, f.Succeeded("delete"))
	require.False(t, f.RetryAfter(now).Holds("write", now))
	require.True(t, f.Holds("write", now), "what a query was answered does not change")
	require.Nil(t, f.Succeeded("write"))
	late := f.Failed(now, "start", "Late", temporal.NewApplicationError("too late", contract.ErrorDeadline))
	require.Equal(t, &Failure{Step: "start", Reason: "Late", Message: "too late", Count: 1, RetryAt: now.Add(time.Second), Late: true}, late)
}

func TestConflictsWithoutNews(t *testing.T) {
	var c Conflicts
	require.NoError(t, c.Met(false, "Pod", "7"), "once may be its own write, whose answer was lost")
	require.NoError(t, c.Met(true, "Pod", "7"))
	require.NoError(t, c.Met(false, "Pod", "7"))
	require.ErrorContains(t, c.Met(false, "Pod", "7"), "Pod is said to have changed, and has not: its version is still 7")
}
