package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// remembers is an instance of a VM whose machine has a TPM that remembers.
func (w *world) remembers(t *testing.T) (vm, vmi contract.Object) {
	t.Helper()
	vm, vmi = w.machine(t)
	yes := true
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Spec.Networks, vmi.Spec.Domain.Devices.Interfaces = nil, nil
		vmi.Spec.Domain.Devices.TPM = &kubevirt.TPMDevice{Persistent: &yes}
	})
	require.NoError(t, err)
	return vm, vmi
}

// TestPersistentStateGetsPVC: the persistent state gets one PVC: the pod mounts it, the VMI's status names it, and it
// is deleted with the VM.
func TestPersistentStateGetsPVC(t *testing.T) {
	w := newWorld(t)
	vm, vmi := w.remembers(t)
	a := w.again(t)
	out, err := a.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Nil(t, out.Awaits)
	name := "persistent-state-for-web-" + contract.ShortUID(vm.UID)
	claim := fakekube.Get[corev1.PersistentVolumeClaim](w.fake, w.ns, name)
	require.NotNil(t, claim)
	require.Equal(t, map[string]string{"persistent-state-for": "web"}, claim.Labels)
	owner := metav1.GetControllerOf(claim)
	require.NotNil(t, owner)
	require.Equal(t, []string{"VirtualMachine", vm.UID}, []string{owner.Kind, string(owner.UID)})
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, claim.Spec.AccessModes)
	require.Nil(t, claim.Spec.StorageClassName)
	require.Equal(t, "10Mi", claim.Spec.Resources.Requests.Storage().String())
	require.Len(t, out.Claims, 1)
	require.Equal(t, []string{"persistent-state-for-this-vm", name, string(claim.UID)},
		[]string{out.Claims[0].Volume, out.Claims[0].Claim, out.Claims[0].UID})
	require.Equal(t, "DisksNotLiveMigratable", out.Migratable.Reason)
	require.Contains(t, out.Migratable.Message, "PVC "+name+" is not shared")
	pod := fakekube.Get[corev1.Pod](w.fake, w.ns, out.Pod.Name)
	require.Contains(t, pod.Spec.Volumes, corev1.Volume{Name: "vm-state", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	require.Contains(t, pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "vm-state", MountPath: "/run/virtflow/state"})

	w.fake.Calls()
	again, err := w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, out.Pod.UID, again.Pod.UID)
	require.NotContains(t, w.fake.Calls(), "POST persistentvolumeclaims", "it is there")
}

// TestTheAdministratorsStorageClassIsShared: the PVC of the administrator's storage class is shared, so that the guest
// can migrate.
func TestTheAdministratorsStorageClassIsShared(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.remembers(t)
	a, err := cluster.New(cluster.Options{Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, LauncherImage: "x",
		Record: fakekube.Record(w.kubernetes), Settings: func() settings.Settings {
			s := settings.Default()
			s.UseEmulation = true
			s.Configuration.VMStateStorageClass = "shared"
			return s
		}})
	require.NoError(t, err)
	out, err := a.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Empty(t, out.Migratable.Reason, out.Migratable.Message)
	claim := fakekube.Get[corev1.PersistentVolumeClaim](w.fake, w.ns, out.Claims[0].Claim)
	require.Equal(t, "shared", *claim.Spec.StorageClassName)
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, claim.Spec.AccessModes)
}

// TestUnusablePVC: one that is going is waited for, another's is refused, and a device is no file system.
func TestUnusablePVC(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.remembers(t)
	made := render.StateClaim(w.there(t, "web"), settings.Default())
	another := made.DeepCopy()
	another.OwnerReferences = nil
	_, err := fakekube.Put(w.fake, another)
	require.NoError(t, err)
	_, err = w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.ErrorContains(t, err, "does not belong to VirtualMachine web: delete it")
	require.NoError(t, fakekube.Remove[corev1.PersistentVolumeClaim](w.fake, w.ns, made.Name, nil))

	device := made.DeepCopy()
	block := corev1.PersistentVolumeBlock
	device.Spec.VolumeMode, device.Finalizers = &block, []string{"kubernetes.io/pvc-protection"}
	_, err = fakekube.Put(w.fake, device)
	require.NoError(t, err)
	_, err = w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.ErrorContains(t, err, "is a device")

	require.NoError(t, fakekube.Remove[corev1.PersistentVolumeClaim](w.fake, w.ns, made.Name, nil))
	out, err := w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.NotNil(t, out.Awaits)
	require.Equal(t, "BackendStorageNotReady", out.Awaits.Reason)
	require.Contains(t, out.Awaits.Message, "is being deleted")
}
