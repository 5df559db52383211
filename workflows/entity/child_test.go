package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestChildReceivesProgressAndShowsDetails(t *testing.T) {
	for text, r := range map[string]entity.Record{
		"Because the VM is to run.":                         {Why: "the VM is to run"},
		"Asked for by alice. Because the VM is to run.":     {Why: "the VM is to run", Actor: "alice"},
		"Approved by bob (claimed). Because it is to stop.": {Why: "it is to stop", ApprovedBy: "bob"},
	} {
		env := environment.New()
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(contract.SignalProgress, contract.InstanceProgress{VMIUID: "i"})
		}, time.Second)
		received := 0
		env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
			c := entity.NewChild[contract.InstanceProgress](ctx, r, func(workflow.Context) { received++ })
			c.SetDetails(ctx, "Waiting.", "")
			require.Equal(t, text+"\n\nWaiting.", workflow.GetCurrentDetails(ctx))
			err := workflow.Await(ctx, func() bool { return c.Latest.VMIUID == "i" })
			return c.Elapsed(ctx, time.Second).String(), err
		})
		require.NoError(t, env.GetWorkflowError())
		took := ""
		require.NoError(t, env.GetWorkflowResult(&took))
		require.Equal(t, "1s", took)
		require.Equal(t, 1, received)
	}
}
