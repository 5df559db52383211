package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/contract"
)

func TestSchedulableNeedsNodeWorkerAndReport(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		ready, worker, reported bool
		label                   string
		want                    string // of the label after the change, "" when none is written
	}{
		{"all there", true, true, true, "", "true"},
		{"node not ready", false, true, true, "true", "false"},
		{"node worker gone", true, false, true, "true", "false"},
		{"not reported yet", true, true, false, "", "false"},
		{"report older than this workflow", true, true, false, "true", ""},
		{"nothing changed", true, true, true, "true", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := State{Name: "node1",
				Node: &contract.NodeObservation{UID: "u", Ready: tc.ready, WorkerReady: tc.worker,
					Labels: map[string]string{}}}
			if tc.label != "" {
				s.Node.Labels[contract.LabelSchedulable] = tc.label
			}
			if tc.reported {
				s.Report = &contract.NodeReport{Incarnation: "a", Sequence: 1}
			}
			got := s.changes()[contract.LabelSchedulable]
			if tc.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, tc.want, *got)
		})
	}
}

func TestObservationsOutOfOrderDoNotTurnBack(t *testing.T) {
	s := State{Name: "node1"}
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "20", Ready: true})
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "10", Ready: false})
	require.True(t, s.Node.Ready)
	s.observe(contract.NodeObservation{UID: "other", Gone: true})
	require.False(t, s.Node.Gone)
	s.report(contract.NodeReport{Incarnation: "a", Sequence: 2, KVM: true})
	s.report(contract.NodeReport{Incarnation: "a", Sequence: 1})
	require.True(t, s.Report.KVM)
}

func TestANodeThatTheAPIServerDoesNotKnowIsDone(t *testing.T) {
	env := environment.New()
	env.RegisterActivityWithOptions(func(context.Context, contract.PatchNodeInput) error {
		return temporal.NewNonRetryableApplicationError("node node1 is gone", contract.ErrorGone, nil)
	}, activity.RegisterOptions{Name: contract.ActivityPatchNode})
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalObserveNode, contract.NodeObservation{UID: "u"})
	}, 0)
	env.ExecuteWorkflow(Workflow, contract.EntityInput{Name: "node1"})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

// TestAnOldObservationTakesNothingBack but tells how the worker is, if that is newer.
func TestAnOldObservationTakesNothingBack(t *testing.T) {
	s := State{Name: "node1"}
	see := func(version, workers string, o contract.NodeObservation) {
		o.UID, o.ResourceVersion, o.WorkerVersion = "u", version, workers
		s.observe(o)
	}
	see("20", "20", contract.NodeObservation{Ready: true, Unschedulable: true, WorkerReady: true})
	see("10", "30", contract.NodeObservation{})
	require.True(t, s.Node.Ready)
	require.True(t, s.Node.Unschedulable)
	require.False(t, s.Node.WorkerReady, "that is newer")
	see("10", "25", contract.NodeObservation{WorkerReady: true})
	require.False(t, s.Node.WorkerReady)
	see("40", "25", contract.NodeObservation{Ready: true, WorkerReady: true})
	require.False(t, s.Node.Unschedulable, "the Node is newer")
	require.False(t, s.Node.WorkerReady, "what is said of its worker is not")
	see("40", "41", contract.NodeObservation{Ready: true, WorkerReady: true})
	require.True(t, s.Node.WorkerReady)
	see("30", "", contract.NodeObservation{})
	require.True(t, s.Node.WorkerReady, "nothing says how old that is")
	require.Equal(t, "40", s.Node.ResourceVersion)
}

// TestTheVendorIsOneLabel: that of an earlier processor goes, and what cannot be a label is none.
func TestTheVendorIsOneLabel(t *testing.T) {
	s := State{
		Name: "node1", Report: &contract.NodeReport{Incarnation: "a", CPUVendor: "AMD"},
		Node: &contract.NodeObservation{UID: "u", Ready: true, WorkerReady: true, Labels: map[string]string{
			contract.LabelSchedulable: "true", CPUVendorPrefix + "Intel": "true",
		}},
	}
	changes := s.changes()
	require.Len(t, changes, 2)
	require.Nil(t, changes[CPUVendorPrefix+"Intel"])
	require.Equal(t, "true", *changes[CPUVendorPrefix+"AMD"])
	s.Report.CPUVendor = "Genuine Intel/x"
	require.Equal(t, map[string]*string{CPUVendorPrefix + "Intel": nil}, s.changes())
}

func TestARepairCannotMakeUpAQuestion(t *testing.T) {
	was := State{Name: "node1"}
	now := was
	require.NoError(t, sound(&was, &now))
	now.Asking = true
	require.Error(t, sound(&was, &now))
}
