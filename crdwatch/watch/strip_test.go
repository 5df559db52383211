package watch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/randfill"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// TestStripKeepsObservedFields fills objects at random: the observation of a stripped object equals that of the whole
// one. It fails for a new observation of a field that Strip drops.
func TestStripKeepsObservedFields(t *testing.T) {
	const objects = 200
	seed := rand.Uint64()
	fill := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("1Mi") },
		func(m *metav1.FieldsV1, _ randfill.Continue) { *m = metav1.FieldsV1{} },
	)
	words := func(m *metav1.ObjectMeta) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[contract.AnnotationRequestedBy] = "alice"
		m.Annotations[contract.AnnotationApproval] = "start,stop"
		m.Annotations[contract.AnnotationVMGeneration] = "7"
	}
	for range objects {
		var vm kubevirt.VirtualMachine
		fill.Fill(&vm.ObjectMeta)
		fill.Fill(&vm.Status)
		fill.Fill(&vm.Spec.RunStrategy)
		words(&vm.ObjectMeta)
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirt.VirtualMachineCondition{
			Type: kubevirt.VirtualMachineConditionType(contract.ConditionHeld), Status: corev1.ConditionTrue,
			Message: "held",
		})
		less, err := Strip(vm.DeepCopy())
		require.NoError(t, err)
		require.Equal(t, observe.VM(&vm), observe.VM(less.(*kubevirt.VirtualMachine)), "seed %d", seed)
		require.NotNil(t, observe.VM(&vm).Held)

		var vmi kubevirt.VirtualMachineInstance
		fill.Fill(&vmi.ObjectMeta)
		fill.Fill(&vmi.Status)
		fill.Fill(&vmi.Spec.TerminationGracePeriodSeconds)
		words(&vmi.ObjectMeta)
		less, err = Strip(vmi.DeepCopy())
		require.NoError(t, err)
		require.Equal(t, observe.VMI(&vmi), observe.VMI(less.(*kubevirt.VirtualMachineInstance)), "seed %d", seed)
		require.Equal(t, vmi.Status.LauncherContainerImageVersion,
			less.(*kubevirt.VirtualMachineInstance).Status.LauncherContainerImageVersion)

		var vmim kubevirt.VirtualMachineInstanceMigration
		fill.Fill(&vmim)
		words(&vmim.ObjectMeta)
		vmim.Annotations[contract.AnnotationEvacuation] = "node1"
		vmim.Annotations[contract.AnnotationWorkloadUpdate] = ""
		vmim.Annotations[contract.AnnotationUnschedulableTimeout] = "60"
		vmim.Annotations[contract.AnnotationPendingTimeout] = "600"
		vmim.Annotations[contract.AnnotationConnections] = "4"
		less, err = Strip(vmim.DeepCopy())
		require.NoError(t, err)
		small := less.(*kubevirt.VirtualMachineInstanceMigration)
		require.Equal(t, observe.Migration(&vmim), observe.Migration(small), "seed %d", seed)
		require.Equal(t, observe.Queued(&vmim, "n", 1), observe.Queued(small, "n", 1), "seed %d", seed)

		var pod corev1.Pod
		fill.Fill(&pod.ObjectMeta)
		fill.Fill(&pod.Status)
		pod.Labels = map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
			contract.LabelCreatedBy: "i", contract.LabelMigration: "j"}
		pod.Annotations = map[string]string{contract.AnnotationDomain: "web", contract.AnnotationMigrationName: "move"}
		pod.Spec.NodeName = "node1"
		pod.Spec.Containers = []corev1.Container{{Name: observe.ComputeContainer, Image: "launcher"}}
		less, err = Strip(pod.DeepCopy())
		require.NoError(t, err)
		require.Equal(t, observe.Pod(&pod), observe.Pod(less.(*corev1.Pod)), "seed %d", seed)
		require.Equal(t, "j", observe.Pod(&pod).Migration)
		require.Equal(t, "move", less.(*corev1.Pod).Annotations[contract.AnnotationMigrationName])

		var node corev1.Node
		fill.Fill(&node.ObjectMeta)
		fill.Fill(&node.Spec)
		fill.Fill(&node.Status.Conditions)
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
		less, err = Strip(node.DeepCopy())
		require.NoError(t, err)
		taint := contract.TaintDrain
		if len(node.Spec.Taints) > 0 {
			taint = node.Spec.Taints[0].Key
		}
		require.Equal(t, observe.Node(&node, true, taint), observe.Node(less.(*corev1.Node), true, taint), "seed %d",
			seed)
	}
}
