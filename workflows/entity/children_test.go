package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// TestDetachedTransitionReportsToItsEntity: its result reaches the entity by signal; one that is attached sends none.
func TestDetachedTransitionReportsToItsEntity(t *testing.T) {
	for name, c := range map[string]struct {
		detached bool
		err      error
		want     *contract.TransitionClosed
	}{
		"attached": {},
		"detached": {detached: true,
			want: &contract.TransitionClosed{ID: "child", Result: json.RawMessage(`{"summary":"done"}`)}},
		"failed": {
			detached: true, err: temporal.NewNonRetryableApplicationError("too late", contract.ErrorDeadline, nil),
			want: &contract.TransitionClosed{ID: "child", Error: "too late", ErrorType: contract.ErrorDeadline},
		},
		"cancelled": {detached: true, err: temporal.NewCanceledError(),
			want: &contract.TransitionClosed{ID: "child", Error: "cancelled", Canceled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			child := func(ctx workflow.Context) (contract.TransitionResult, error) {
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return contract.TransitionResult{}, err
				}
				return entity.ReportOutcome(ctx, contract.TransitionResult{Summary: "done"}, c.err)
			}
			env.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "child"})
			var received []contract.TransitionClosed
			parent := func(ctx workflow.Context) error {
				ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "child"})
				f := workflow.ExecuteChildWorkflow(ctx, "child")
				if err := f.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
					return err
				}
				if c.detached {
					if err := workflow.SignalExternalWorkflow(ctx, "child", "", contract.SignalDetached, nil).
						Get(ctx, nil); err != nil {
						return err
					}
				}
				_ = f.Get(ctx, nil)
				channel := workflow.GetSignalChannel(ctx, contract.SignalTransitionClosed)
				for h := (contract.TransitionClosed{}); channel.ReceiveAsync(&h); h = (contract.TransitionClosed{}) {
					received = append(received, h)
				}
				return nil
			}
			env.RegisterWorkflowWithOptions(parent, workflow.RegisterOptions{Name: "parent"})
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "parent"})
			env.ExecuteWorkflow("parent")
			require.NoError(t, env.GetWorkflowError())
			if c.want == nil {
				require.Empty(t, received)
				return
			}
			require.Len(t, received, 1)
			got := received[0]
			if c.err != nil {
				got.Result = nil
			}
			require.Equal(t, *c.want, got)
		})
	}
}

// asking is an entity with an open transition that an earlier run has opened.
type asking struct{ Open *entity.Transition }

func (a *asking) State() any                 { return a }
func (*asking) Refresh(time.Time)            {}
func (*asking) Details(p entity.Plan) string { return p.Waiting.String() }
func (*asking) Busy() bool                   { return false }

func (a *asking) plan(l *entity.Loop, now time.Time) entity.Plan {
	d := a.Open.Decide(now, func(time.Time) entity.Decision {
		return entity.Decision{Waiting: waits.For(waits.Transition, "start")}
	})
	if d.Action == entity.ActNone {
		return entity.Plan{WakeAt: d.WakeAt, Finish: a.Open == nil}
	}
	return entity.Plan{Step: &entity.Step{Name: string(d.Action), Do: func(ctx workflow.Context) error {
		return l.AskOpen(ctx, a.Open)
	}}}
}

type planned struct {
	*asking
	plan func(time.Time) entity.Plan
}

func (p *planned) Plan(now time.Time) entity.Plan { return p.plan(now) }

// TestNoticesTerminatedTransition: it is asked at intervals. An open one continues, one that has reported has closed
// with its report, and the outcome of one that does not exist and has not reported is unknown.
func TestNoticesTerminatedTransition(t *testing.T) {
	for name, c := range map[string]struct {
		reports bool
		want    contract.TransitionClosed
	}{
		"terminated":          {want: contract.TransitionClosed{ID: "gone", ErrorType: contract.ErrorOutcomeUnknown}},
		"closed at that time": {reports: true, want: contract.TransitionClosed{ID: "gone", Canceled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			began := env.Now()
			asked := 0
			env.OnSignalExternalWorkflow(mock.Anything, "gone", "", contract.SignalDetached, nil).Return(
				func(string, string, string, string, any) error {
					if asked++; asked < 3 {
						return nil
					}
					env.SignalWorkflow(contract.SignalTransitionClosed, contract.TransitionClosed{ID: "an earlier one"})
					if c.reports {
						env.SignalWorkflow(contract.SignalTransitionClosed, c.want)
					}
					return &temporal.UnknownExternalWorkflowExecutionError{}
				})
			var closed []contract.TransitionClosed
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				e := &asking{Open: &entity.Transition{ID: "gone", Since: began, Deadline: began.Add(time.Hour)}}
				p := &planned{asking: e}
				l := entity.NewLoop(ctx, p)
				p.plan = func(now time.Time) entity.Plan { return e.plan(l, now) }
				open := func() *entity.Transition { return e.Open }
				l.OnTransitionClosed(open, func(_ workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
					require.Equal(t, []string{"gone", c.Error}, []string{o.ID, o.Error})
					closed = append(closed, c)
					e.Open = nil
				})
				return l.Run("asking", func([]byte) any { return nil })
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, 3, asked)
			require.Len(t, closed, 1)
			closed[0].Error = ""
			require.Equal(t, c.want, closed[0])
			require.Less(t, env.Now().Sub(began), 20*time.Minute)
		})
	}
}

// TestSignalsTransitionWithinTheTask: the signal is sent in the workflow task in which there is progress, and by a
// command if that fails.
func TestSignalsTransitionWithinTheTask(t *testing.T) {
	for _, fails := range []bool{false, true} {
		env := environment.New()
		locally := 0
		env.RegisterActivityWithOptions(
			func(_ context.Context, in contract.SignalInput) error {
				if fails {
					return errors.New("no answer")
				}
				locally++
				env.RegisterDelayedCallback(func() {
					_ = env.SignalWorkflowByID(in.ID, in.Signal, in.Payload)
				}, time.Millisecond)
				return nil
			}, activity.RegisterOptions{Name: contract.ActivitySignal})
		queue := ""
		env.RegisterWorkflowWithOptions(func(ctx workflow.Context) (said string, _ error) {
			queue = workflow.GetInfo(ctx).TaskQueueName
			workflow.GetSignalChannel(ctx, contract.SignalProgress).Receive(ctx, &said)
			return said, nil
		}, workflow.RegisterOptions{Name: "signalled"})
		var closed contract.TransitionClosed
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			l := entity.NewLoop(ctx, &planned{asking: &asking{}})
			var open *entity.Transition
			l.OnTransitionClosed(func() *entity.Transition { return open },
				func(_ workflow.Context, c contract.TransitionClosed, _ entity.Outcome) { closed = c })
			open = &entity.Transition{Operation: contract.OperationStart}
			if err := l.OpenTransition(ctx, open, entity.Opening{Count: new(int), Type: "signalled",
				ID: func(int) string { return "open" }}); err != nil {
				return err
			}
			if err := l.SignalOpen(ctx, open, "it runs"); err != nil {
				return err
			}
			return workflow.Await(ctx, func() bool { return closed.ID != "" })
		})
		require.NoError(t, env.GetWorkflowError())
		require.JSONEq(t, `"it runs"`, string(closed.Result))
		require.Equal(t, !fails, locally == 1, "else by a command")
		require.Equal(t, contract.TransitionTaskQueue, queue)
	}
}
