package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

// attempts fails one attempt after the other, and succeeds then.
type attempts struct {
	fail []error
	made int
}

func (a *attempts) Operate(context.Context, contract.OperateDomainInput) (contract.DomainObservation, error) {
	a.made++
	if a.made <= len(a.fail) {
		return contract.DomainObservation{}, a.fail[a.made-1]
	}
	return contract.DomainObservation{}, nil
}

// TestNotBegunOnlyAtFirstAttempt: only the first attempt can know that nothing was done; those after it do not know
// what went before.
func TestNotBegunOnlyAtFirstAttempt(t *testing.T) {
	full := &node.NotBegunError{Err: errors.New("the node's worker is full")}
	failed := errors.New("the launcher ended the call")
	for name, c := range map[string]struct {
		fail []error
		made int
		kind string
	}{
		"not begun":                       {[]error{full, full}, 1, contract.ErrorNotBegun},
		"failed midway, and then not":     {[]error{failed, full, full}, 3, contract.ErrorNoLauncher},
		"failed midway, and not, and did": {[]error{failed, full}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			operator := &attempts{fail: c.fail}
			env := environment.New()
			env.RegisterActivityWithOptions((&node.Activities{Operator: operator}).OperateDomain,
				activity.RegisterOptions{Name: contract.ActivityOperateDomain})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 3},
				})
				in := contract.OperateDomainInput{Pod: contract.Object{UID: "p"}, Operation: contract.OperationPause}
				return workflow.ExecuteActivity(ctx, contract.ActivityOperateDomain, in).Get(ctx, nil)
			})
			require.Equal(t, c.made, operator.made)
			err := env.GetWorkflowError()
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			var activity *temporal.ActivityError
			require.ErrorAs(t, err, &activity)
			var app *temporal.ApplicationError
			require.ErrorAs(t, activity.Unwrap(), &app)
			require.Equal(t, c.kind, app.Type())
		})
	}
}
