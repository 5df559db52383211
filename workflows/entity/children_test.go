package entity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestADetachedTransitionReportsToItsEntity: what it returns reaches the entity by signal, and nothing is sent where it was not detached.
func TestADetachedTransitionReportsToItsEntity(t *testing.T) {
	for name, c := range map[string]struct {
		detached bool
		err      error
		want     *contract.TransitionClosed
	}{
		"attached": {},
		"detached": {detached: true, want: &contract.TransitionClosed{ID: "child", Result: json.RawMessage(`{"summary":"done"}`)}},
		"failed": {
			detached: true, err: temporal.NewNonRetryableApplicationError("too late", contract.ErrorDeadline, nil),
			want: &contract.TransitionClosed{ID: "child", Error: "too late", ErrorType: contract.ErrorDeadline},
		},
		"cancelled": {detached: true, err: temporal.NewCanceledError(), want: &contract.TransitionClosed{ID: "child", Error: "cancelled", Canceled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			child := func(ctx workflow.Context) (contract.TransitionResult, error) {
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return contract.TransitionResult{}, err
				}
				return entity.Reported(ctx, contract.TransitionResult{Summary: "done"}, c.err)
			}
			env.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "child"})
			var heard []contract.TransitionClosed
			parent := func(ctx workflow.Context) error {
				ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "child"})
				f := workflow.ExecuteChildWorkflow(ctx, "child")
				if err := f.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
					return err
				}
				if c.detached {
					if err := workflow.SignalExternalWorkflow(ctx, "child", "", contract.SignalDetached, nil).Get(ctx, nil); err != nil {
						return err
					}
				}
				_ = f.Get(ctx, nil)
				channel := workflow.GetSignalChannel(ctx, contract.SignalTransitionClosed)
				for h := (contract.TransitionClosed{}); channel.ReceiveAsync(&h); h = (contract.TransitionClosed{}) {
					heard = append(heard, h)
				}
				return nil
			}
			env.RegisterWorkflowWithOptions(parent, workflow.RegisterOptions{Name: "parent"})
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "parent"})
			env.ExecuteWorkflow("parent")
			require.NoError(t, env.GetWorkflowError())
			if c.want == nil {
				require.Empty(t, heard)
				return
			}
			require.Len(t, heard, 1)
			got := heard[0]
			if c.err != nil {
				got.Result = nil
			}
			require.Equal(t, *c.want, got)
		})
	}
}
