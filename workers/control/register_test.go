package control

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// registered notes the names that workflows are registered by.
type registered struct{ names []string }

func (r *registered) RegisterWorkflow(any) {}

func (r *registered) RegisterWorkflowWithOptions(_ any, o workflow.RegisterOptions) {
	r.names = append(r.names, o.Name)
}

func (r *registered) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {}

// TestAllWorkflowTypesAreKnown: crdwatch ends what a release cannot replay, of each type.
func TestAllWorkflowTypesAreKnown(t *testing.T) {
	var r registered
	RegisterWorkflows(&r)
	require.ElementsMatch(t, contract.WorkflowTypes(), r.names)
}
