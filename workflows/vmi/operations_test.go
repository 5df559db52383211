package vmi_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/workflows/vmi"
)

// outcome is the answer to an operation.
type outcome struct {
	answered bool
	rejected bool // by the validator: not in the history
	err      error
}

func (o *outcome) is(t *testing.T, kind, message string) {
	t.Helper()
	require.True(t, o.answered)
	if kind == "" {
		require.NoError(t, o.err)
		return
	}
	var app *temporal.ApplicationError
	require.ErrorAs(t, o.err, &app)
	require.Equal(t, kind, app.Type())
	require.Contains(t, app.Message(), message)
}

// operate sends an operation as the api server does.
func (w *world) operate(o contract.Operation, id string, change ...func(*contract.InstanceRequest)) *outcome {
	r := contract.InstanceRequest{Operation: o, UID: w.UID(1), Actor: "jane"}
	for _, c := range change {
		c(&r)
	}
	var out outcome
	w.env.UpdateWorkflow(string(o), id, &callbacks{&out}, r)
	return &out
}

type callbacks struct{ *outcome }

func (c *callbacks) Accept() {}
func (c *callbacks) Reject(err error) {
	c.answered, c.rejected, c.err = true, true, err
}
func (c *callbacks) Complete(_ any, err error) { c.answered, c.err = true, err }

func TestPauseAndUnpause(t *testing.T) {
	w := newWorld(t)
	w.boot()
	var paused, again, back, unpaused *outcome
	w.at(10*time.Second, func() { paused = w.operate(contract.OperationPause, "p1") })
	w.at(11*time.Second, func() {
		paused.is(t, "", "")
		require.Equal(t, "PausedByUser", w.condition("Paused").Reason)
		require.Equal(t, "Running", w.VMIStatus.Phase, "a paused guest is alive")
		require.Equal(t, "False", w.Pod().Unpaused, "and gets no traffic")
		again = w.operate(contract.OperationPause, "p2")
	})
	w.at(12*time.Second, func() {
		again.is(t, contract.RefusedState, "VMI is already paused")
		require.True(t, again.rejected)
		unpaused = w.operate(contract.OperationUnpause, "u1")
	})
	w.at(13*time.Second, func() {
		unpaused.is(t, "", "")
		require.Empty(t, w.condition("Paused").Type)
		require.Equal(t, "True", w.Pod().Unpaused)
		back = w.operate(contract.OperationUnpause, "u2")
	})
	w.at(14*time.Second, func() {
		back.is(t, contract.RefusedState, "VMI is not paused")
		records := w.state(t).Records
		var done []contract.Operation
		for _, r := range records {
			if r.Actor == "jane" {
				require.Equal(t, "done", r.Outcome)
				require.False(t, r.Claimed, "the API server knows who it was")
				done = append(done, r.Operation)
			}
		}
		require.Equal(t, []contract.Operation{contract.OperationPause, contract.OperationUnpause}, done)
		w.DeleteVMI()
	})
	w.at(15*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// TestAnswersOperationBeforeStatusWrite: a series of operations does not delay the write for ever.
func TestAnswersOperationBeforeStatusWrite(t *testing.T) {
	w := newWorld(t)
	w.boot()
	pauses := func() bool { return w.condition("Paused").Type != "" }
	begins := 10 * time.Second
	for i := range 20 {
		o := contract.OperationPause
		if i%2 == 1 {
			o = contract.OperationUnpause
		}
		at := begins + time.Duration(i)*100*time.Millisecond
		var asked *outcome
		w.at(at, func() { asked = w.operate(o, fmt.Sprint("o", i)) })
		w.at(at+50*time.Millisecond, func() {
			asked.is(t, "", "")
			if i < 10 {
				require.False(t, pauses())
				require.Equal(t, "True", w.Pod().Unpaused)
			}
		})
	}
	shown := 0
	for i := range 100 { // the clock advances while an activity runs
		w.at(begins+time.Second+time.Duration(i)*5*time.Millisecond, func() {
			if pauses() && w.Pod().Unpaused == "False" {
				shown++
			}
		})
	}
	w.at(begins+1500*time.Millisecond, func() { require.NotZero(t, shown, "the hold-off lasts for a second at most") })
	w.at(begins+2500*time.Millisecond, func() { require.False(t, pauses()) })
	w.at(begins+3*time.Second, func() { w.operate(contract.OperationPause, "last") })
	w.at(begins+3100*time.Millisecond, func() { require.False(t, pauses()) })
	w.at(begins+3300*time.Millisecond, func() { require.True(t, pauses()) })
	w.at(begins+4*time.Second, w.DeleteVMI)
	w.at(begins+5*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// A frozen guest is shown for as long as its node worker reports it.
func TestShowsFrozenGuest(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() { w.operate(contract.OperationFreeze, "f1") })
	w.at(11*time.Second, func() {
		require.True(t, w.VMIStatus.Frozen)
		w.operate(contract.OperationUnfreeze, "u1")
	})
	w.at(12*time.Second, func() {
		require.False(t, w.VMIStatus.Frozen)
		w.operate(contract.OperationFreeze, "f2")
	})
	w.at(13*time.Second, w.DeleteVMI)
	w.at(14*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.False(t, w.VMIStatus.Frozen, "what has ended is not frozen")
}

// TestPausedGuestEnds: the deletion of its pod stops it, as any other guest.
func TestPausedGuestEnds(t *testing.T) {
	w := newWorld(t)
	w.boot()
	var paused *outcome
	w.at(10*time.Second, func() { paused = w.operate(contract.OperationPause, "p1") })
	w.at(11*time.Second, func() {
		paused.is(t, "", "")
		require.Equal(t, "True", w.condition("Paused").Status, "it is paused when its deletion begins")
		w.DeleteVMI()
	})
	w.at(12*time.Second, func() {
		require.NotNil(t, w.Pod().DeletionTimestamp)
		w.EndPod(contract.ReasonShutdown, true, 0)
	})
	w.run(t)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}

// A request that is repeated is done once: in the run that did it, and in a later one that only carries its record:
// Temporal drops the IDs of Updates between runs, and so does this test's environment.
func TestRepeatedRequestIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.boot()
	var carried []byte
	w.at(10*time.Second, func() { w.operate(contract.OperationReset, "reset/1") })
	w.at(11*time.Second, func() {
		require.Equal(t, []contract.Operation{contract.OperationReset}, w.Operations)
		state, err := json.Marshal(w.state(t))
		require.NoError(t, err)
		carried = state
		w.env.CancelWorkflow()
	})
	w.env.ExecuteWorkflow(vmi.Workflow, contract.EntityInput{Namespace: cluster.Namespace, Name: cluster.Name})
	require.NotEmpty(t, carried)

	next := w.next()
	var again, other *outcome
	next.at(time.Second, func() { again = next.operate(contract.OperationReset, "reset/1") })
	next.at(2*time.Second, func() {
		again.is(t, "", "")
		require.Equal(t, []contract.Operation{contract.OperationReset}, next.Operations, "not once more")
		other = next.operate(contract.OperationReset, "reset/2")
	})
	next.at(3*time.Second, func() {
		other.is(t, "", "")
		require.Equal(t, []contract.Operation{contract.OperationReset, contract.OperationReset}, next.Operations)
		next.DeleteVMI()
	})
	next.at(4*time.Second, func() { next.EndPod(contract.ReasonShutdown, true, 0) })
	next.runWith(t, carried)
}

func TestOperationsRunInSequence(t *testing.T) {
	w := newWorld(t)
	w.boot()
	var answers []*outcome
	w.at(10*time.Second, func() {
		for i, o := range []contract.Operation{contract.OperationPause, contract.OperationPause,
			contract.OperationFreeze} {
			answers = append(answers, w.operate(o, string(rune('a'+i))))
		}
	})
	w.at(11*time.Second, func() {
		answers[0].is(t, "", "")
		answers[1].is(t, contract.RefusedState, "VMI is already paused")
		answers[2].is(t, "", "")
		require.Equal(t, []contract.Operation{contract.OperationPause, contract.OperationFreeze}, w.Operations)
		w.DeleteVMI()
	})
	w.at(12*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

func TestNodeWorkerDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	away := temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
	var failure error
	asked := 0
	w.Fail = func(a string) error {
		if a != contract.ActivityOperateDomain || failure == nil {
			return nil
		}
		asked++
		return failure
	}
	w.boot()
	var reset, paused, frozen, next *outcome
	w.at(10*time.Second, func() { failure = away; reset = w.operate(contract.OperationReset, "r1") })
	w.at(time.Minute, func() {
		reset.is(t, contract.RefusedAway, cluster.NodeName)
		require.Equal(t, 1, asked, "a reset whose outcome is not known is not repeated")
		asked = 0
		paused = w.operate(contract.OperationPause, "p1")
	})
	w.at(2*time.Minute, func() {
		paused.is(t, contract.RefusedAway, "")
		require.Greater(t, asked, 1, "pausing twice does no harm")
		failure = temporal.NewNonRetryableApplicationError("the agent is not connected", contract.RefusedFailed, nil)
		frozen = w.operate(contract.OperationFreeze, "f1")
	})
	w.at(3*time.Minute, func() {
		frozen.is(t, contract.RefusedFailed, "the agent is not connected")
		failure = nil
		next = w.operate(contract.OperationPause, "p1b")
	})
	w.at(4*time.Minute, func() {
		next.is(t, "", "")
		records := w.state(t).Records
		require.Equal(t, "done", records[len(records)-1].Outcome)
		require.Equal(t, "the agent is not connected", records[len(records)-2].Outcome)
		w.DeleteVMI()
	})
	w.at(5*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// TestOperationNotBegunMayBeRepeated: its outcome is known, so a reset may be requested again.
func TestOperationNotBegunMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	var failure error
	asked := 0
	w.Fail = func(a string) error {
		if a != contract.ActivityOperateDomain {
			return nil
		}
		asked++
		return failure
	}
	w.boot()
	var reset, paused *outcome
	w.at(10*time.Second, func() {
		failure = temporal.NewNonRetryableApplicationError("it is full", contract.ErrorNotBegun, nil)
		reset = w.operate(contract.OperationReset, "r1")
	})
	w.at(11*time.Second, func() {
		reset.is(t, contract.RefusedAway,
			"The node worker on node "+cluster.NodeName+" has not begun it: it is full. Try again.")
		paused = w.operate(contract.OperationPause, "p1")
	})
	w.at(12*time.Second, func() {
		paused.is(t, contract.RefusedAway, "has not begun it: it is full")
		require.Equal(t, 2, asked)
		for _, r := range w.state(t).Records {
			require.False(t, r.OutcomeUnknown, "%+v", r)
		}
		w.DeleteVMI()
	})
	w.at(13*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

func TestDryRunDoesNothing(t *testing.T) {
	w := newWorld(t)
	dry := func(r *contract.InstanceRequest) { r.DryRun = true }
	w.boot()
	var paused, unpaused *outcome
	w.at(10*time.Second, func() {
		paused, unpaused = w.operate(contract.OperationPause, "p1", dry),
			w.operate(contract.OperationUnpause, "u1", dry)
	})
	w.at(11*time.Second, func() {
		paused.is(t, "", "")
		unpaused.is(t, contract.RefusedState, "VMI is not paused")
		require.Empty(t, w.Operations)
		w.DeleteVMI()
	})
	w.at(12*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// TestOperationEndsWithItsGuest: the pod ends while the node worker does not answer.
func TestOperationEndsWithItsGuest(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityOperateDomain {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		return nil
	}
	w.boot()
	var paused, after *outcome
	w.at(10*time.Second, func() { paused = w.operate(contract.OperationPause, "p1") })
	w.at(11*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.at(time.Minute, func() {
		paused.is(t, contract.RefusedAway, "")
		require.Equal(t, "Succeeded", w.VMIStatus.Phase)
		after = w.operate(contract.OperationPause, "p2")
	})
	w.at(2*time.Minute, func() { after.is(t, contract.RefusedState, "VM is not running"); w.DeleteVMI() })
	w.run(t)
}
