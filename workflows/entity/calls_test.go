package entity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/environment"
)

// TestMessages: the messages are readable for users, who see them in conditions and perhaps do not know Temporal.
func TestMessages(t *testing.T) {
	refused := temporal.NewApplicationError("exceeded quota", "Forbidden")
	for want, err := range map[string]error{
		"":               nil,
		"exceeded quota": temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, refused),
		"the activity timed out": fmt.Errorf("deleting: %w",
			temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil)),
		"schedule-to-start time-out: no worker picked up the activity": temporal.NewTimeoutError(
			enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil),
		"it was cancelled": temporal.NewCanceledError(),
		"broken":           fmt.Errorf("around it: %w", errors.New("broken")),
	} {
		require.Equal(t, want, Message(err))
	}
}

// TestCallReturnsLastError: after its attempts a call returns the API server's last error, and not one of Temporal's
// own.
func TestCallReturnsLastError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
		made int
	}{
		"refused": {temporal.NewNonRetryableApplicationError("exceeded quota", "Forbidden", nil), "exceeded quota", 1},
		"refused by an activity of v0.1.0": {temporal.NewApplicationError("exceeded quota", "Forbidden"), "exceeded quota",
			1 + attempts},
		"unavailable": {temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), "the activity timed out",
			1 + attempts},
		"invalid": {temporal.NewNonRetryableApplicationError("no such field", "Invalid", nil), "no such field", 1},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			made := 0
			env.RegisterActivityWithOptions(func() (string, error) {
				made++
				return "", c.err
			}, activity.RegisterOptions{Name: "Try"})
			env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
				began := workflow.Now(ctx)
				_, err := Call[string](ctx, "Try", "try", nil)
				require.Less(t, workflow.Now(ctx).Sub(began), 2*time.Minute)
				return Message(err), nil
			})
			require.NoError(t, env.GetWorkflowError())
			var got string
			require.NoError(t, env.GetWorkflowResult(&got))
			require.Equal(t, c.want, got)
			require.Equal(t, c.made, made)
		})
	}
}
