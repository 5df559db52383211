package node

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
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
			got := s.labelChanges()[contract.LabelSchedulable]
			if tc.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, tc.want, *got)
		})
	}
}

func TestIgnoresOlderObservation(t *testing.T) {
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

func TestEndsWhenNodeIsNotFound(t *testing.T) {
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

// TestOldObservationOnlyUpdatesItsNewerPart: whether the worker is ready has a version of its own.
func TestOldObservationOnlyUpdatesItsNewerPart(t *testing.T) {
	s := State{Name: "node1"}
	see := func(version, workers string, o contract.NodeObservation) {
		o.UID, o.ResourceVersion, o.WorkerVersion = "u", version, workers
		s.observe(o)
	}
	see("20", "20", contract.NodeObservation{Ready: true, Unschedulable: true, WorkerReady: true})
	see("10", "30", contract.NodeObservation{})
	require.True(t, s.Node.Ready)
	require.True(t, s.Node.Unschedulable)
	require.False(t, s.Node.WorkerReady, "its worker's part is newer")
	see("10", "25", contract.NodeObservation{WorkerReady: true})
	require.False(t, s.Node.WorkerReady)
	see("40", "25", contract.NodeObservation{Ready: true, WorkerReady: true})
	require.False(t, s.Node.Unschedulable, "the Node is newer")
	require.False(t, s.Node.WorkerReady, "its worker's part is not")
	see("40", "41", contract.NodeObservation{Ready: true, WorkerReady: true})
	require.True(t, s.Node.WorkerReady)
	see("30", "", contract.NodeObservation{})
	require.True(t, s.Node.WorkerReady, "the version of that is unknown")
	require.Equal(t, "40", s.Node.ResourceVersion)
}

// TestDrainFollowsSettings: the KubeVirt object may name another taint while the node stays as it is.
func TestDrainFollowsSettings(t *testing.T) {
	s := State{Name: "node1"}
	see := func(version, settings string, drain bool) {
		s.observe(contract.NodeObservation{UID: "u", ResourceVersion: version, SettingsVersion: settings, Drain: drain,
			WorkerVersion: "1"})
	}
	see("20", "", false)
	see("20", "", true)
	require.False(t, s.Node.Drain, "of a release with one taint: nothing has changed")
	see("20", "21", true)
	require.True(t, s.Node.Drain, "the setting is newer")
	see("20", "10", false)
	require.True(t, s.Node.Drain, "the setting is older")
	see("19", "22", false)
	require.True(t, s.Node.Drain, "the node is older")
	see("20", "22", false)
	require.False(t, s.Node.Drain)
	see("30", "21", true)
	require.True(t, s.Node.Drain, "the node is newer")
	see("30", "22", false)
	require.False(t, s.Node.Drain)
	s.observe(contract.NodeObservation{UID: "u", Gone: true})
	see("30", "40", true)
	require.False(t, s.Node.Drain, "it is gone")
}

// TestVendorHasOneLabel: an earlier processor's is removed, and an invalid one is not written.
func TestVendorHasOneLabel(t *testing.T) {
	s := State{
		Name: "node1", Report: &contract.NodeReport{Incarnation: "a", CPUVendor: "AMD"},
		Node: &contract.NodeObservation{UID: "u", Ready: true, WorkerReady: true, Labels: map[string]string{
			contract.LabelSchedulable: "true", CPUVendorPrefix + "Intel": "true",
		}},
	}
	changes := s.labelChanges()
	require.Len(t, changes, 2)
	require.Nil(t, changes[CPUVendorPrefix+"Intel"])
	require.Equal(t, "true", *changes[CPUVendorPrefix+"AMD"])
	s.Report.CPUVendor = "Genuine Intel/x"
	require.Equal(t, map[string]*string{CPUVendorPrefix + "Intel": nil}, s.labelChanges())
}

func TestRepairRefusesInventedQuestion(t *testing.T) {
	was := State{Name: "node1"}
	now := was
	require.NoError(t, validate(&was, &now))
	now.Asking = true
	require.Error(t, validate(&was, &now))
}

// TestModelsFollowSettingsOfOlderNode: the informer of a new leader may lag behind the version of the node that the
// entity knows, and not behind the settings.
func TestModelsFollowSettingsOfOlderNode(t *testing.T) {
	s := State{Name: "node1"}
	see := func(version, settings string, drain bool, models ...string) {
		s.observe(contract.NodeObservation{UID: "u", ResourceVersion: version, SettingsVersion: settings, Drain: drain,
			ObsoleteCPUModels: models, WorkerVersion: "1"})
	}
	see("20", "10", true, "Penryn")
	see("19", "21", false, "Nehalem")
	require.True(t, s.Node.Drain, "the taint may be a newer one")
	require.Equal(t, []string{"Nehalem"}, s.Node.ObsoleteCPUModels)
	require.Equal(t, "20", s.Node.ResourceVersion)
	see("20", "21", false, "Nehalem")
	require.False(t, s.Node.Drain, "crdwatch has sent it again")
}

// TestLeavesSettingsToNextRun: a run of v0.1.0 keeps to its drain taint and its CPU models.
func TestLeavesSettingsToNextRun(t *testing.T) {
	c := contract.HostCapabilities{CPUModels: []string{"Penryn", "Nehalem"}}
	s := State{Name: "node1", Logic: entity.LogicWithout(contract.ChangeAfterFirst),
		Report: &contract.NodeReport{Capabilities: &c}}
	see := func(s *State, settings string, drain bool, obsolete ...string) {
		s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "20", SettingsVersion: settings, Drain: drain,
			ObsoleteCPUModels: obsolete, WorkerReady: true, WorkerVersion: "1",
			Capabilities: contract.CapabilityDigest(CapabilityLabels(c, nil))})
	}
	see(&s, "21", false, "Penryn")
	require.Nil(t, s.capabilities(), "also of its first observation")
	see(&s, "22", true, "Nehalem")
	require.False(t, s.Node.Drain)
	see(&s, "21", false)
	carried, err := json.Marshal(s)
	require.NoError(t, err)
	var next State
	require.NoError(t, json.Unmarshal(carried, &next))
	next.observeUnapplied()
	require.True(t, next.Node.Drain)
	require.True(t, next.Node.WorkerReady)
	require.NotContains(t, next.capabilities(), "cpu-model.node.kubevirt.io/Nehalem")
	require.Contains(t, next.capabilities(), "cpu-model.node.kubevirt.io/Penryn")
	require.Nil(t, next.Unapplied)
}
