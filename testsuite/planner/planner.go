package planner

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/entity"
)

// mostSteps is how many steps may fail in an hour: some two dozen for each step with a back-off of its own.
const mostSteps = 250

// PausesAfterFailures checks that a planner backs off after each failure if every step fails for good: a step and the
// status write for its failure do not end each other's back-off. Decide refreshes derived state, and plans; failure
// returns the planner's failure.
func PausesAfterFailures(
	t *testing.T, now time.Time, decide func(time.Time) entity.Decision, failure **entity.Failure,
) {
	t.Helper()
	steps := 0
	for end := now.Add(time.Hour); now.Before(end); {
		d := decide(now)
		if d.Action == entity.ActNone {
			require.True(t, now.Before(d.WakeAt), "it waits for a time that has passed")
			now = d.WakeAt
			continue
		}
		steps++
		require.Less(t, steps, mostSteps, "in an hour")
		*failure = (*failure).AfterFailure(now, d.Step(), "", errors.New("refused"))
	}
	require.Positive(t, steps, "nothing was tried")
}
