package entity_test

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestWritesChangedSearchAttributes: changed attributes are written in one event, and insignificant changes are not
// written.
func TestWritesChangedSearchAttributes(t *testing.T) {
	env := environment.New()
	written := 0
	env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(mock.Arguments) { written++ }).Return(nil)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		l := entity.NewLoop(ctx, nil)
		for _, c := range []struct {
			phase, operation string
			want             int
		}{{"Running", "", 1}, {"Running", "", 1}, {"Running", "delete", 1}, {"Succeeded", "delete", 2}, {"", "delete",
			3}} {
			l.SetSearchAttributes(ctx, []entity.Attribute{
				{Name: contract.SearchPhase, Value: c.phase},
				{Name: contract.SearchOperation, Value: c.operation, Along: true},
			})
			require.Equal(t, c.want, written, "%+v", c)
		}
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}
