package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

func offered() contract.HostCapabilities {
	return contract.HostCapabilities{
		VirtType: "kvm", MachineTypes: []string{"q35", "pc-q35-7.2"}, CPUModels: []string{"Penryn", "qemu64", "486-v1"},
		CPUFeatures: []string{"aes"},
		HostModel:   "Skylake-Client-IBRS", HostModelFeatures: []string{"ss"}, TSCFrequency: 2400000000,
		TSCScalable: true, CPUManager: true,
	}
}

func TestCapabilityLabels(t *testing.T) {
	require.Equal(t, map[string]string{
		"machine-type.node.kubevirt.io/q35": "true", "machine-type.node.kubevirt.io/pc-q35-7.2": "true",
		"cpu-model.node.kubevirt.io/Penryn": "true", "cpu-model-migration.node.kubevirt.io/Penryn": "true",
		"cpu-feature.node.kubevirt.io/aes":                         "true",
		"host-model-cpu.node.kubevirt.io/Skylake-Client-IBRS":      "true",
		"cpu-model-migration.node.kubevirt.io/Skylake-Client-IBRS": "true",
		"host-model-required-features.node.kubevirt.io/ss":         "true",
		"cpu-timer.node.kubevirt.io/tsc-frequency":                 "2400000000",
		"cpu-timer.node.kubevirt.io/tsc-scalable":                  "true",
		"virtflow.io/virt-type":                                    "kvm",
		"kubevirt.io/cpumanager":                                   "true",
	}, CapabilityLabels(offered(), nil))
	require.False(t, contract.IsCapability("kubevirt.io/cpumanager-of-another"))

	old := CapabilityLabels(contract.HostCapabilities{VirtType: "kvm", HostModel: "Opteron_G2"}, nil)
	require.Equal(t, "true", old["node-labeller.kubevirt.io/obsolete-host-model"])
	require.NotContains(t, old, "cpu-model-migration.node.kubevirt.io/Opteron_G2")
	for key := range CapabilityLabels(offered(), nil) {
		require.True(t, contract.IsCapability(key), "%s is never removed", key)
	}
}

// TestClusterNamesObsoleteModels: its list replaces KubeVirt's own.
func TestClusterNamesObsoleteModels(t *testing.T) {
	labels := CapabilityLabels(offered(), []string{"Penryn", "Skylake-Client-IBRS"})
	require.NotContains(t, labels, "cpu-model.node.kubevirt.io/Penryn")
	require.NotContains(t, labels, "cpu-model-migration.node.kubevirt.io/Penryn")
	require.NotContains(t, labels, "cpu-model-migration.node.kubevirt.io/Skylake-Client-IBRS")
	require.Contains(t, labels, "cpu-model.node.kubevirt.io/qemu64")
	require.Equal(t, "true", labels["node-labeller.kubevirt.io/obsolete-host-model"])
	for key := range labels {
		require.True(t, contract.IsCapability(key), "%s is never removed", key)
	}
	s := State{Node: &contract.NodeObservation{UID: "u", ResourceVersion: "5",
		Capabilities: contract.CapabilityDigest(CapabilityLabels(offered(), nil))}}
	c := offered()
	s.Report = &contract.NodeReport{Capabilities: &c}
	require.Nil(t, s.capabilities())
	next := *s.Node
	next.ObsoleteCPUModels, next.SettingsVersion = []string{"Penryn"}, "6"
	s.observe(next)
	require.NotContains(t, s.capabilities(), "cpu-model.node.kubevirt.io/Penryn", "the labels are written again")
	require.NotEmpty(t, s.capabilities())
}

func TestOmitsInvalidLabels(t *testing.T) {
	bad := []string{"", "a b", "a/b", "-a", strings.Repeat("x", 64), "a\nb"}
	require.Equal(t, map[string]string{"machine-type.node.kubevirt.io/ok": "true"},
		CapabilityLabels(contract.HostCapabilities{
			VirtType: "a/b", MachineTypes: append(slices.Clone(bad), "ok"), CPUModels: bad, CPUFeatures: bad,
			HostModel: "a b", HostModelFeatures: bad,
		}, nil))
	require.Len(t, CapabilityLabels(contract.HostCapabilities{MachineTypes: slices.Repeat([]string{"a", "b"}, 1000)},
		nil), 2)
}

func TestWritesCapabilitiesWhenTheyDiffer(t *testing.T) {
	env := environment.New()
	var wrote []contract.PatchNodeInput
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.PatchNodeInput) error {
		wrote = append(wrote, in)
		return nil
	}, activity.RegisterOptions{Name: contract.ActivityPatchNode})
	c := offered()
	report := contract.NodeReport{Incarnation: "a", Sequence: 1, Capabilities: &c}
	observe := func(version, digest string) func() {
		return func() {
			env.SignalWorkflow(contract.SignalObserveNode,
				contract.NodeObservation{UID: "u", ResourceVersion: version, Ready: true, WorkerReady: true,
					Labels: map[string]string{contract.LabelSchedulable: "true"}, Capabilities: digest})
		}
	}
	digest := contract.CapabilityDigest(CapabilityLabels(c, nil))
	env.RegisterDelayedCallback(observe("1", ""), 0)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalReportNode, report) }, time.Second)
	env.RegisterDelayedCallback(observe("2", digest), 2*time.Second)
	env.RegisterDelayedCallback(func() { require.Len(t, wrote, 1) }, 3*time.Second)
	env.RegisterDelayedCallback(observe("3", "another"), 4*time.Second)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalObserveNode, contract.NodeObservation{UID: "u", Gone: true})
	}, 10*time.Second)
	env.ExecuteWorkflow(Workflow, contract.EntityInput{Name: "node1"})
	require.True(t, env.IsWorkflowCompleted())
	require.Len(t, wrote, 2)
	for _, in := range wrote {
		require.Equal(t, CapabilityLabels(c, nil), in.Capabilities)
		require.Empty(t, in.Labels)
	}
}
