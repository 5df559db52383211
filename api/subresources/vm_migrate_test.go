package subresources_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machine makes a VM with an instance of its own.
func (r *rig) machine(name string, phase kubevirtv1.VirtualMachineInstancePhase) {
	r.t.Helper()
	r.vm(name, kubevirtv1.RunStrategyAlways, running)
	r.vmi(name, phase, nil)
}

func (r *rig) migrations() []kubevirtv1.VirtualMachineInstanceMigration {
	r.t.Helper()
	var all kubevirtv1.VirtualMachineInstanceMigrationList
	require.NoError(r.t, r.client.List(r.t.Context(), &all, client.InNamespace("default")))
	return all.Items
}

func TestMigrate(t *testing.T) {
	r := newRig(t)
	r.machine("web", kubevirtv1.Running)
	accepted(t, r.do("PUT", "virtualmachines/web/migrate", ""))
	accepted(t, r.do("PUT", "virtualmachines/web/migrate", `{"addedNodeSelector":{"zone":"b"},"dryRun":["All"]}`))
	all := r.migrations()
	require.Len(t, all, 1, "a dry run makes none")
	require.Regexp(t, "^kubevirt-migrate-vm-.+", all[0].Name)
	require.Equal(t, kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: "web"}, all[0].Spec)
	require.Equal(t, "jane", all[0].Annotations[by])

	r = newRig(t)
	r.machine("web", kubevirtv1.Running)
	accepted(t, r.do("PUT", "virtualmachines/web/migrate", `{"addedNodeSelector":{"zone":"b"}}`))
	require.Equal(t, map[string]string{"zone": "b"}, r.migrations()[0].Spec.AddedNodeSelector)
}

func TestMigrateIsRefused(t *testing.T) {
	r := newRig(t)
	r.machine("web", kubevirtv1.Running)
	r.machine("boots", kubevirtv1.Scheduled)
	r.vm("off", kubevirtv1.RunStrategyHalted, nil)
	r.vm("other", kubevirtv1.RunStrategyAlways, running)
	r.vmi("other", kubevirtv1.Running, disown)
	refused(t, r.do("PUT", "virtualmachines/boots/migrate", "{}"), "boots", "VM is not running")
	for path, text := range map[string]string{
		"missing": `virtualmachine.kubevirt.io "missing" not found`,
		"off":     `virtualmachineinstance.kubevirt.io "off" not found`,
		"other":   `virtualmachineinstance.kubevirt.io "other" not found`, // it only has the VM's name
	} {
		a := r.do("PUT", "virtualmachines/"+path+"/migrate", "{}")
		require.Equal(t, 404, a.code, path)
		require.Equal(t, text, a.status.Message)
	}
	require.Equal(t, 400, r.do("PUT", "virtualmachines/web/migrate", `{"dryRun":["Some"]}`).code)
	require.Equal(t, 400, r.do("PUT", "virtualmachines/web/migrate", `{"addedNodeSelector":7}`).code)
	r.denied = "not now"
	a := r.do("PUT", "virtualmachines/web/migrate", "{}")
	require.Equal(t, 500, a.code)
	require.Equal(t, `Internal error occurred: some "one" is forbidden: not now`, a.status.Message)
	require.Empty(t, r.migrations())
}

// TestRefusesToCancelEvacuationByTaint: the evacuation would begin again at once.
func TestRefusesToCancelEvacuationByTaint(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"drained", "cordoned"} {
		require.NoError(t, r.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	taint := func(name, key string) {
		n := &corev1.Node{}
		require.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, n))
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		require.NoError(t, r.client.Update(t.Context(), n))
	}
	taint("drained", "kubevirt.io/drain")
	taint("cordoned", corev1.TaintNodeUnschedulable)
	on := func(node, leaves string) func(*kubevirtv1.VirtualMachineInstance) {
		return func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.NodeName, v.Status.EvacuationNodeName = node, leaves
		}
	}
	r.vmi("marked", kubevirtv1.Running, on("drained", "drained"))
	r.vmi("unmarked", kubevirtv1.Running, on("drained", ""))
	r.vmi("cordoned", kubevirtv1.Running, on("cordoned", "cordoned"))
	for _, name := range []string{"marked", "unmarked"} {
		a := r.do("PUT", "virtualmachineinstances/"+name+"/evacuate/cancel", "{}")
		require.Equal(t, 400, a.code, name)
		require.Equal(t, `Node "drained" has NodeDrainTaintKey "kubevirt.io/drain:NoSchedule"`, a.status.Message)
	}
	require.Equal(t, "drained", r.getVMI("marked").Status.EvacuationNodeName)
	require.Equal(t, 200, r.do("PUT", "virtualmachineinstances/cordoned/evacuate/cancel", "{}").code)
	require.Empty(t, r.getVMI("cordoned").Status.EvacuationNodeName)
	r.cluster.Configuration.MigrationConfiguration = &kubevirtv1.MigrationConfiguration{NodeDrainTaintKey: new("a/b")}
	require.Equal(t, 200, r.do("PUT", "virtualmachineinstances/marked/evacuate/cancel", "{}").code, "of another taint")
}
