package restoretoken

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

type token = contract.FencingToken

func newEnvironment(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := environment.New()
	env.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: contract.WorkflowFencingToken})
	return env
}

// TestCarriesToken: after the greatest number of advances in a run, the token is carried to the next run.
func TestCarriesToken(t *testing.T) {
	env := newEnvironment(t)
	at := token{Epoch: 3, Counter: 7}
	for i := range advancesPerRun {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflowNoRejection(contract.UpdateAdvance, "", t, contract.AdvanceInput{From: at, To: at.Next()})
			at = at.Next()
		}, time.Duration(i+1)*30*time.Second)
	}
	env.ExecuteWorkflow(contract.WorkflowFencingToken, contract.FencingInput{Token: at})
	require.True(t, env.IsWorkflowCompleted())
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	require.Equal(t, token{Epoch: 3, Counter: 7 + advancesPerRun}, at)
	v, err := env.QueryWorkflow(contract.QueryFencingToken)
	require.NoError(t, err)
	var held token
	require.NoError(t, v.Get(&held))
	require.Equal(t, at, held)
}

func TestRefusesAdvance(t *testing.T) {
	now := token{Epoch: 2, Counter: 5}
	for name, c := range map[string]struct {
		a  contract.AdvanceInput
		ok bool
	}{
		"one step":    {contract.AdvanceInput{From: now, To: now.Next()}, true},
		"a new epoch": {contract.AdvanceInput{From: now, To: token{Epoch: 3, Counter: 1}}, true},
		"from elsewhere": {contract.AdvanceInput{From: token{Epoch: 2, Counter: 4},
			To: token{Epoch: 2, Counter: 6}}, false},
		"the same":            {contract.AdvanceInput{From: now, To: now}, false},
		"back":                {contract.AdvanceInput{From: now, To: token{Epoch: 2, Counter: 4}}, false},
		"an epoch back":       {contract.AdvanceInput{From: now, To: token{Epoch: 1, Counter: 9}}, false},
		"as if there is none": {contract.AdvanceInput{To: token{Epoch: 1, Counter: 1}}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.ok, refuse(now, c.a) == nil) })
	}
}
