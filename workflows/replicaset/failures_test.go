package replicaset

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTwoThatFailForGoodHaveAPauseEach: a step and the write that tells of its failure do not make each other's pause end.
func TestTwoThatFailForGoodHaveAPauseEach(t *testing.T) {
	now := begin()
	s := settledState(3)
	steps := 0
	for end := now.Add(time.Hour); now.Before(end); steps++ {
		require.Less(t, steps, 250, "in an hour")
		s.setConditions(now)
		d := s.decide(now)
		if d.Action == actNone {
			require.True(t, now.Before(d.WakeAt))
			now = d.WakeAt
			continue
		}
		s.Failure = s.Failure.Failed(now, d.Step(), "", errors.New("refused"))
	}
}
