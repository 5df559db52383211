package cluster

import (
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// SetPhase writes a phase of the instance, as its entity does.
func (c *Cluster) SetPhase(phase string) { c.SetPhaseOf(Name, phase) }

// SetPhaseOf is SetPhase for an instance of a replica set.
func (c *Cluster) SetPhaseOf(name, phase string) {
	c.editVMI(name, func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Status.Phase = kubevirt.VirtualMachineInstancePhase(phase)
		ready := kubevirt.VirtualMachineInstanceCondition{Type: kubevirt.VirtualMachineInstanceReady,
			Status: corev1.ConditionFalse, Reason: "GuestNotRunning"}
		if phase == "Running" {
			ready.Status, ready.Reason = corev1.ConditionTrue, ""
			vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
				kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{Phase: kubevirt.Running,
					PhaseTransitionTimestamp: metav1.NewTime(c.env.Now())})
		}
		vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{ready}
	})
}

// RemoveVMI removes the finalizers, as the entity of a deleted instance does at its end.
func (c *Cluster) RemoveVMI() { c.removeVMI(Name) }

func (c *Cluster) removeVMI(name string) {
	if kube.Get[kubevirt.VirtualMachineInstance](c.Kube, Namespace, name) != nil {
		c.editVMI(name, func(vmi *kubevirt.VirtualMachineInstance) { vmi.Finalizers = nil })
	}
}

// VanishVMI deletes an instance and its finalizers at once.
func (c *Cluster) VanishVMI() {
	require.NoError(c.t, kube.Remove[kubevirt.VirtualMachineInstance](c.Kube, Namespace, Name, nil))
	c.removeVMI(Name)
}

// playReplica simulates the entities of a replica set's instances.
func (c *Cluster) playReplica(change kube.Change, vmi *kubevirt.VirtualMachineInstance) {
	switch before, _ := change.Old.(*kubevirt.VirtualMachineInstance); {
	case change.Type == kube.Added && c.Boots != nil && metav1.GetControllerOfNoCopy(vmi) != nil:
		c.after(c.Boots(observe.Ordinal(vmi)), func() { c.Run(vmi.Name) })
	case change.Type == kube.Modified && vmi.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		c.after(c.Ends, func() { c.removeVMI(vmi.Name) })
	}
}

// Run makes the guest of an instance run, unless it has ended.
func (c *Cluster) Run(name string) {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](c.Kube, Namespace, name)
	if vmi != nil && !vmi.IsFinal() && vmi.Status.Phase != kubevirt.Running {
		c.SetPhaseOf(name, "Running")
	}
}

// Vanish deletes an instance of a replica set, as kubectl delete vmi does.
func (c *Cluster) Vanish(name string) {
	require.NoError(c.t, kube.Remove[kubevirt.VirtualMachineInstance](c.Kube, Namespace, name, nil))
}
