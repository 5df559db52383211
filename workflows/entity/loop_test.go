package entity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// still is an entity that never has anything to do.
type still struct{ Carried string }

func (s *still) State() any               { return s }
func (*still) Plan(time.Time) entity.Plan { return entity.Plan{} }
func (*still) Refresh(time.Time)          {}
func (*still) Details(entity.Plan) string { return "" }
func (*still) Busy() bool                 { return false }

// TestARunSaysThatItBeganWithNoChanges only where the run before it began with some: Temporal keeps that for the next.
func TestARunSaysThatItBeganWithNoChanges(t *testing.T) {
	require.Empty(t, contract.Changes(), "from the first change on, each run says with which ones it began")
	for _, c := range []struct {
		before []string
		says   int
	}{{nil, 0}, {[]string{"later-1", "logic:later-1"}, 1}, {[]string{"logic:none-1"}, 0}} {
		env := environment.New()
		if c.before != nil {
			key := temporal.NewSearchAttributeKeyKeywordList("TemporalChangeVersion")
			attributes := temporal.NewSearchAttributes(key.ValueSet(c.before))
			require.NoError(t, env.SetTypedSearchAttributesOnStart(attributes))
		}
		said := 0
		env.OnGetVersion(contract.Logic(nil), workflow.DefaultVersion, workflow.Version(1)).Return(
			func(string, workflow.Version, workflow.Version) workflow.Version { said++; return 1 })
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			entity.NewLoop(ctx, &still{})
			return nil
		})
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, c.says, said, "after %v", c.before)
	}
}

// TestAnIdleEntityContinuesAsNewWhenAsked, with its state.
func TestAnIdleEntityContinuesAsNewWhenAsked(t *testing.T) {
	env := environment.New()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalContinueAsNew, struct{}{}) }, time.Hour)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return entity.NewLoop(ctx, &still{Carried: "all"}).Run("still", func(carried []byte) any {
			return json.RawMessage(carried)
		})
	})
	require.True(t, env.IsWorkflowCompleted())
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	require.Equal(t, "still", again.WorkflowType.Name)
	require.JSONEq(t, `{"Carried":"all"}`, string(again.Input.GetPayloads()[0].GetData()))
}
