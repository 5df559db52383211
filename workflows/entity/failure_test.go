package entity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/environment"
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
	require.Equal(t, &Failure{Step: "start", Reason: "Late", Message: "too late", Count: 1,
		RetryAt: now.Add(time.Second), Late: true}, late)
}

// TestAStepAndTheWriteFailApart: neither makes the other's pause shorter, or forgotten.
func TestAStepAndTheWriteFailApart(t *testing.T) {
	now, why := time.Unix(1000, 0), errors.New("refused")
	for name, f := range map[string]*Failure{
		"the step first": (*Failure)(nil).Failed(now, "start", "", why).Failed(now, "start", "", why).
			Failed(now, stepWrite, "", why),
		"the write first": (*Failure)(nil).Failed(now, stepWrite, "", why).Failed(now, "start", "", why).
			Failed(now, "start", "", why),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "start", f.Step, "which the status shows")
			require.Equal(t, 2, f.Of("start").Count)
			require.Equal(t, 1, f.Of(stepWrite).Count)
			require.Nil(t, f.Of("delete"))
			require.True(t, f.Holds("start", now))
			require.True(t, f.Holds(stepWrite, now))
			require.Equal(t, stepWrite, f.Succeeded("start").Step)
			require.Nil(t, f.Succeeded(stepWrite).Write)
			require.Equal(t, 2, f.Succeeded(stepWrite).Count)
			require.Nil(t, f.Succeeded("start").Succeeded(stepWrite))
			require.Equal(t, 2, f.Failed(now, stepWrite, "", why).Of(stepWrite).Count)
			require.False(t, f.RetryAfter(now).Holds(stepWrite, now))
			require.Nil(t, f.Conflicting())
			f.Of(stepWrite).Conflict = true
			require.Equal(t, stepWrite, f.Conflicting().Step)
			require.Equal(t, "delete", f.Failed(now, "delete", "", why).Step)
			require.NotNil(t, f.Failed(now, "delete", "", why).Of(stepWrite), "another step's failure keeps it")
		})
	}
}

func TestSettleKeepsAFailureUntilItsStepSucceeds(t *testing.T) {
	env := environment.New()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var last *Failure
		why := errors.New("no")
		require.NoError(t, Settle(ctx, &last, "start", "FailedCreate", nil))
		require.Nil(t, last)
		require.Equal(t, why, Settle(ctx, &last, "start", "FailedCreate", why))
		require.Equal(t, []any{"FailedCreate", 1}, []any{last.Reason, last.Count})
		require.True(t, last.Holds("start", workflow.Now(ctx)))
		require.NoError(t, Settle(ctx, &last, "stop", "", nil))
		require.NotNil(t, last, "another step's success says nothing")
		require.NoError(t, Settle(ctx, &last, "start", "", nil))
		require.Nil(t, last)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}
