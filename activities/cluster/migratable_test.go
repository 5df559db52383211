package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// TestWritesMigrationStateWhole: what a migration no longer reports is removed, and so is the request for the move.
func TestWritesMigrationStateWhole(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Status.EvacuationNodeName = "node1"
		vmi.Annotations = map[string]string{kubevirt.EvictionSourceAnnotation: "descheduler", "a": "b"}
	})
	require.NoError(t, err)
	write := func(in contract.PatchVMIInput) *kubevirt.VirtualMachineInstance {
		in.VMI, in.ResourceVersion = vmi, w.there(t, "web").ResourceVersion
		in.Status.Phase = "Running"
		out, err := w.PatchVMI(t.Context(), in)
		require.NoError(t, err)
		require.True(t, out.Written)
		require.Equal(t, in.Status.Migration, out.Current.Migration, "what is written is read back")
		return w.there(t, "web")
	}
	node, none := "node2", ""
	now := time.Unix(1000, 0).UTC()
	begun := write(contract.PatchVMIInput{TargetLabel: &node, Status: &contract.VMIStatus{NodeName: "node1",
		MigrationMethod: "BlockMigration", Migration: &contract.MigrationState{MigrationUID: "m", TargetNode: node,
			TargetAddress: "10.0.0.1", TargetPort: 8188, PolicyName: "p", Start: now, Mode: "PreCopy",
			Configuration: &contract.MigrationConfiguration{Bandwidth: 1 << 20, Progress: 150}}}})
	require.Equal(t, node, begun.Labels[contract.LabelMigrationTarget])
	require.Equal(t, "node1", begun.Status.EvacuationNodeName, "it has not left yet")
	require.Equal(t, kubevirt.BlockMigration, begun.Status.MigrationMethod)
	require.Equal(t, kubevirt.MigrationTransportUnix, begun.Status.MigrationTransport)

	moved := write(contract.PatchVMIInput{TargetLabel: &none, NodeLabel: &node, Evacuated: true,
		Status: &contract.VMIStatus{NodeName: node,
			Migration: &contract.MigrationState{MigrationUID: "m", TargetNode: node, Start: now, End: now,
				Completed: true}}})
	require.NotContains(t, moved.Labels, contract.LabelMigrationTarget)
	require.Equal(t, node, moved.Labels[contract.LabelNodeName])
	require.Empty(t, moved.Status.EvacuationNodeName)
	require.Equal(t, map[string]string{"a": "b"}, moved.Annotations)
	require.Nil(t, write(contract.PatchVMIInput{Status: &contract.VMIStatus{}}).Status.MigrationState)
}

// TestWhetherAGuestCanBeMovedIsSaidWhereItIsAtHand: it costs no call, but one for a node whose CPUs count.
func TestWhetherAGuestCanBeMovedIsSaidWhereItIsAtHand(t *testing.T) {
	for name, c := range map[string]struct {
		labelled bool
		placed   string // the reason
	}{
		"a node that names no CPU":  {placed: "CPUModeLiveMigratable"},
		"a node that names its CPU": {labelled: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Settings = settings.Default
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
			if c.labelled {
				node.Labels = map[string]string{kubevirt.HostModelCPULabel + "EPYC": "true"}
			}
			_, err := fakekube.Put(w.fake, node)
			require.NoError(t, err)
			_, vmi := w.machine(t)
			_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
				vmi.Spec.Domain.CPU = &kubevirt.CPU{Model: "host-model"}
				vmi.Spec.Domain.Devices.Interfaces = nil
			})
			require.NoError(t, err)
			made, err := w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
			require.NoError(t, err)
			require.Empty(t, made.Migratable.Reason, "it is on no node yet")
			w.later = time.Minute
			again, err := w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, made.Pod.UID, again.Pod.UID)
			require.Empty(t, again.Migratable.Reason)
			for range 2 {
				out, err := w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi,
					ResourceVersion: w.there(t, "web").ResourceVersion,
					Status:          &contract.VMIStatus{Phase: "Running", NodeName: "node1"}})
				require.NoError(t, err)
				require.Equal(t, c.placed, out.Migratable.Reason)
			}
			w.fake.Calls()
			read, err := w.ReadVMI(t.Context(), contract.ReadVMIInput{VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, c.placed, read.Migratable.Reason)
			for _, call := range w.fake.Calls() {
				require.NotContains(t, call, "nodes", "it is believed for some minutes")
			}
			require.Equal(t, "BlockMigration", read.Migratable.Method)
		})
	}
}
