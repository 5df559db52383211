package entity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

// still is an entity that never has a step.
type still struct{ Carried string }

func (s *still) State() any               { return s }
func (*still) Plan(time.Time) entity.Plan { return entity.Plan{} }
func (*still) Refresh(time.Time)          {}
func (*still) Details(entity.Plan) string { return "" }
func (*still) Busy() bool                 { return false }

// TestIdleEntityContinuesAsNew: an idle entity continues as new, with its state, when it is asked to.
func TestIdleEntityContinuesAsNew(t *testing.T) {
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

// flooded is an entity that has a step for each signal.
type flooded struct{ Received, Done int }

func (f *flooded) State() any               { return f }
func (*flooded) Refresh(time.Time)          {}
func (*flooded) Details(entity.Plan) string { return "" }
func (*flooded) Busy() bool                 { return false }

func (f *flooded) Plan(time.Time) entity.Plan {
	if f.Done == f.Received {
		return entity.Plan{}
	}
	return entity.Plan{Step: &entity.Step{Name: "follow", Do: func(ctx workflow.Context) error {
		f.Done = f.Received
		return workflow.Sleep(ctx, time.Second)
	}}}
}

// TestSignalFloodDoesNotPreventContinueAsNew: a long run continues as new during a flood, and the next run has all
// signals. A short run processes the signals first.
func TestSignalFloodDoesNotPreventContinueAsNew(t *testing.T) {
	const all = 500
	for length, most := range map[int]int{250: all, 2000: 5} {
		env := environment.New()
		env.SetCurrentHistoryLength(length)
		sent := 0
		for i := range all { // one at least in each step
			env.RegisterDelayedCallback(func() {
				if !env.IsWorkflowCompleted() {
					sent++
					env.SignalWorkflow("more", struct{}{})
				}
			}, time.Duration(i)*300*time.Millisecond)
		}
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			f := &flooded{}
			l := entity.NewLoop(ctx, f)
			entity.OnSignal(l, "more", func(struct{}) { f.Received++ })
			return l.Run("flooded", func(carried []byte) any { return json.RawMessage(carried) })
		})
		var again *workflow.ContinueAsNewError
		require.ErrorAs(t, env.GetWorkflowError(), &again)
		var carried flooded
		require.NoError(t, json.Unmarshal(again.Input.GetPayloads()[0].GetData(), &carried))
		require.Equal(t, sent, carried.Received, "signals are lost at a length of %d", length)
		require.LessOrEqual(t, sent, most, "at a length of %d", length)
		if length == 250 {
			require.Equal(t, all, sent)
		}
	}
}
