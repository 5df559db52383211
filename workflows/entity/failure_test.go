package entity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

func TestFailuresCountOn(t *testing.T) {
	now := time.Unix(1000, 0)
	var f *Failure
	require.False(t, f.MustWait("write", now))
	require.Nil(t, f.AfterSuccess("write"))
	require.Nil(t, f.RetryAfter(now))
	for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		f = f.AfterFailure(now, "write", "FailedUpdate", errors.New("refused"))
		require.Equal(t, n+1, f.Count)
		require.Equal(t, now.Add(pause), f.RetryAt)
	}
	require.True(t, f.MustWait("write", now))
	require.False(t, f.MustWait("write", f.RetryAt))
	require.False(t, f.MustWait("delete", now), "another step does not wait")
	require.Same(t, f, f.AfterSuccess("delete"))
	require.False(t, f.RetryAfter(now).MustWait("write", now))
	require.True(t, f.MustWait("write", now), "what a query was answered does not change")
	require.Nil(t, f.AfterSuccess("write"))
	late := f.AfterFailure(now, "start", "Late", temporal.NewApplicationError("too late", contract.ErrorDeadline))
	require.Equal(t, &Failure{Step: "start", Reason: "Late", Message: "too late", Count: 1,
		RetryAt: now.Add(time.Second), Late: true}, late)
}

// TestStepAndWriteFailSeparately: neither shortens or clears the other's back-off.
func TestStepAndWriteFailSeparately(t *testing.T) {
	now, why := time.Unix(1000, 0), errors.New("refused")
	for name, f := range map[string]*Failure{
		"the step first": (*Failure)(nil).AfterFailure(now, "start", "", why).AfterFailure(now, "start", "", why).
			AfterFailure(now, stepWrite, "", why),
		"the write first": (*Failure)(nil).AfterFailure(now, stepWrite, "", why).AfterFailure(now, "start", "", why).
			AfterFailure(now, "start", "", why),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "start", f.Step, "which the status shows")
			require.Equal(t, 2, f.OfStep("start").Count)
			require.Equal(t, 1, f.OfStep(stepWrite).Count)
			require.Nil(t, f.OfStep("delete"))
			require.True(t, f.MustWait("start", now))
			require.True(t, f.MustWait(stepWrite, now))
			require.Equal(t, stepWrite, f.AfterSuccess("start").Step)
			require.Nil(t, f.AfterSuccess(stepWrite).Write)
			require.Equal(t, 2, f.AfterSuccess(stepWrite).Count)
			require.Nil(t, f.AfterSuccess("start").AfterSuccess(stepWrite))
			require.Equal(t, 2, f.AfterFailure(now, stepWrite, "", why).OfStep(stepWrite).Count)
			require.False(t, f.RetryAfter(now).MustWait(stepWrite, now))
			require.Nil(t, f.OfConflict())
			f.OfStep(stepWrite).Conflict = true
			require.Equal(t, stepWrite, f.OfConflict().Step)
			require.Equal(t, "delete", f.AfterFailure(now, "delete", "", why).Step)
			require.NotNil(t, f.AfterFailure(now, "delete", "", why).OfStep(stepWrite),
				"another step's failure keeps it")
		})
	}
}

func TestSettleKeepsFailureUntilItsStepSucceeds(t *testing.T) {
	env := environment.New()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var last *Failure
		why := errors.New("no")
		require.NoError(t, RecordResult(ctx, &last, "start", "FailedCreate", nil))
		require.Nil(t, last)
		require.Equal(t, why, RecordResult(ctx, &last, "start", "FailedCreate", why))
		require.Equal(t, []any{"FailedCreate", 1}, []any{last.Reason, last.Count})
		require.True(t, last.MustWait("start", workflow.Now(ctx)))
		require.NoError(t, RecordResult(ctx, &last, "stop", "", nil))
		require.NotNil(t, last, "another step's success says nothing")
		require.NoError(t, RecordResult(ctx, &last, "start", "", nil))
		require.Nil(t, last)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}
