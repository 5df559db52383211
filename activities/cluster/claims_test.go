package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// TestPodGetsExistingPVCs: one that is absent is waited for, each is read once more for each attempt, and
// what they are decides what the pod is like and whether the guest can be moved.
func TestPodGetsExistingPVCs(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Spec.Networks, vmi.Spec.Domain.Devices.Interfaces = nil, nil
		for _, name := range []string{"file", "block"} {
			source := &kubevirt.PersistentVolumeClaimVolumeSource{}
			source.ClaimName = "c-" + name
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, kubevirt.Volume{Name: name,
				VolumeSource: kubevirt.VolumeSource{PersistentVolumeClaim: source}})
		}
	})
	require.NoError(t, err)
	put := func(name string, mode corev1.PersistentVolumeMode, access corev1.PersistentVolumeAccessMode) {
		_, err := fakekube.Put(w.fake, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name,
				Annotations: map[string]string{"cdi.kubevirt.io/storage.preallocation": "true"}},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &mode,
				AccessModes: []corev1.PersistentVolumeAccessMode{access},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
		})
		require.NoError(t, err)
	}
	a := w.again(t)
	put("c-file", corev1.PersistentVolumeFilesystem, corev1.ReadWriteMany)
	w.fake.Calls()
	out, err := a.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, &contract.Awaits{Reason: "FailedPvcNotFound",
		Message: "PVC default/c-block does not exist, waiting for it to appear"}, out.Awaits)
	require.Empty(t, out.Pod.UID)
	require.Equal(t, "1Gi", out.Claims[0].Requests)
	require.Empty(t, out.Claims[1].UID)
	require.Equal(t, []string{"GET virtualmachineinstances", "GET persistentvolumeclaims", "GET persistentvolumeclaims",
		"POST events"}, w.fake.Calls())

	// Of two volumes that are the same claim it is read once.
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, kubevirt.Volume{Name: "again", VolumeSource: kubevirt.VolumeSource{
			PersistentVolumeClaim: &kubevirt.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c-file"}}}})
	})
	require.NoError(t, err)
	w.fake.Calls()
	out, err = a.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, []string{"GET virtualmachineinstances", "GET persistentvolumeclaims", "GET persistentvolumeclaims",
		"POST events"}, w.fake.Calls())
	require.Equal(t, out.Claims[0].UID, out.Claims[len(out.Claims)-1].UID)
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Spec.Volumes = vmi.Spec.Volumes[:len(vmi.Spec.Volumes)-1]
	})
	require.NoError(t, err)

	put("c-block", corev1.PersistentVolumeBlock, corev1.ReadWriteOnce)
	out, err = a.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Nil(t, out.Awaits)
	require.Equal(t, "cannot migrate VMI: PVC c-block is not shared, live migration requires that all PVCs must be "+
		"shared (using ReadWriteMany access mode)", out.Migratable.Message)
	pod := fakekube.Get[corev1.Pod](w.fake, w.ns, out.Pod.Name)
	require.Contains(t, pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "claim-file", MountPath: "/run/virtflow/claims/file"})
	require.Equal(t, []corev1.VolumeDevice{{Name: "claim-block", DevicePath: "/dev/virtflow/block"}},
		pod.Spec.Containers[0].VolumeDevices)
	require.Contains(t, pod.Annotations[contract.AnnotationVMISpec], `"volumeStatus":[{"name":"file"`)

	written, err := a.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi,
		ResourceVersion: w.there(t, "web").ResourceVersion,
		Status: &contract.VMIStatus{Phase: "Running", Claims: out.Claims, Volumes: []contract.DomainVolume{
			{Name: "root", Target: "vda"}, {Name: "file", Target: "vdb", Size: 5}}}})
	require.NoError(t, err)
	require.Equal(t, out.Migratable, written.Migratable, "nothing else is found once it is written")
	got := fakekube.Get[kubevirt.VirtualMachineInstance](w.fake, w.ns, "web").Status.VolumeStatus
	require.Len(t, got, 3)
	require.Equal(t, "block", got[0].Name)
	file := got[1]
	require.Equal(t, "vdb", file.Target)
	require.Equal(t, "c-file", file.PersistentVolumeClaimInfo.ClaimName)
	require.Equal(t, "2Gi", file.PersistentVolumeClaimInfo.Capacity.Storage().String())
	require.Equal(t, kubevirt.Percent("0.055"), *file.PersistentVolumeClaimInfo.FilesystemOverhead)
	require.True(t, file.PersistentVolumeClaimInfo.Preallocated)
	require.Nil(t, got[2].PersistentVolumeClaimInfo)
}
