package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// An instance waits for its PVC without polling, and continues by itself.
func TestWaitsForPVC(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVMI(cluster.OnClaim("data")) })
	const missing = "PVC default/data does not exist, waiting for it to appear"
	w.at(4*time.Minute, func() {
		require.Nil(t, w.Pod())
		require.Equal(t, 1, w.Count(contract.ActivityCreatePod), "it does not poll")
		require.Equal(t, 1, w.Count(contract.ActivityPatchVMI))
		require.Equal(t, "Pending", w.VMIStatus.Phase)
		for kind, reason := range map[string]string{
			"Synchronized": "FailedPvcNotFound", "PodScheduled": "Unschedulable",
		} {
			c := w.condition(kind)
			require.Equal(t, []string{"False", reason, missing}, []string{c.Status, c.Reason, c.Message})
		}
		w.CreateClaim("other")
	})
	w.at(4*time.Minute+time.Second, func() {
		require.Equal(t, 1, w.Count(contract.ActivityCreatePod), "it is another one's")
		w.CreateClaim("data", corev1.ReadWriteOnce)
	})
	w.at(4*time.Minute+2*time.Second, func() {
		require.NotNil(t, w.Pod(), "the pod waits for the claim's volume, as any pod does")
		require.Equal(t, 2, w.Count(contract.ActivityCreatePod))
		w.BindClaim("data", "2Gi")
		w.RunPod()
	})
	w.at(5*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Empty(t, w.condition("Synchronized"))
		require.Empty(t, w.condition("PodScheduled"))
		require.Equal(t, []contract.VolumeClaim{{Volume: "data", Claim: "data", AccessModes: []string{"ReadWriteOnce"},
			Capacity: "2Gi", Requests: "1Gi"}}, w.VMIStatus.Claims)
		c := w.condition("LiveMigratable")
		require.Equal(t, "DisksNotLiveMigratable", c.Reason)
		require.Equal(t, "cannot migrate VMI: PVC data is not shared, live migration requires that all PVCs must "+
			"be shared "+
			"(using ReadWriteMany access mode)", c.Message)
		w.BindClaim("data", "3Gi")
	})
	w.at(5*time.Minute+10*time.Second, func() {
		require.Equal(t, "3Gi", w.VMIStatus.Claims[0].Capacity, "it has grown")
		w.DeleteVMI()
	})
	w.at(5*time.Minute+12*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// A PVC is found in the end without an observation. An instance that waits can be deleted.
func TestFindsPVCWithoutObservation(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVMI(cluster.OnClaim("data")) })
	w.at(time.Second, func() { w.Unseen(func() { w.CreateClaim("data") }) })
	w.at(4*time.Minute, func() { require.Nil(t, w.Pod()) })
	w.at(6*time.Minute, func() {
		require.NotNil(t, w.Pod())
		w.DeleteVMI()
	})
	w.at(7*time.Minute, func() { w.EndPod(contract.ReasonNeverRan, false, 0) })
	w.run(t)

	w = newWorld(t)
	w.at(0, func() { w.CreateVMI(cluster.OnClaim("data")) })
	w.at(time.Minute, w.DeleteVMI)
	w.run(t)
}

// An instance waits for a device in use until the other guest has ended, which no observation reports. A pod that was
// created a moment too late is not the instance's.
func TestWaitsForDeviceInUse(t *testing.T) {
	for _, race := range []bool{false, true} {
		waitForDevice(t, race)
	}
}

func waitForDevice(t *testing.T, race bool) {
	t.Helper()
	w := newWorld(t)
	block := corev1.PersistentVolumeBlock
	_, err := kube.Put(w.Kube, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeMode: &block},
	})
	require.NoError(t, err)
	other := func() {
		_, err := kube.Put(w.Kube, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "other",
				Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue}},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "claim-data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}},
		})
		require.NoError(t, err)
	}
	if race { // it is created after this one was checked
		w.Kube.Intercept(func(r kube.Request) *kube.Fault {
			if r.Resource == "pods" && r.Verb == "create" {
				w.Kube.Intercept(nil)
				other()
			}
			return nil
		})
	} else {
		other()
	}
	w.at(0, func() { w.CreateVMI(cluster.OnClaim("data")) })
	w.at(20*time.Second, func() {
		require.Equal(t, 1, w.Count(contract.ActivityCreatePod))
		require.Equal(t, "PvcInUse", w.condition("Synchronized").Reason)
		require.NoError(t, kube.Remove[corev1.Pod](w.Kube, cluster.Namespace, "other", nil))
	})
	w.at(40*time.Second, func() {
		require.Equal(t, 2, w.Count(contract.ActivityCreatePod))
		require.NotNil(t, w.Pod())
		w.DeleteVMI()
	})
	w.at(time.Minute, func() { w.EndPod(contract.ReasonNeverRan, false, 0) })
	w.run(t)
}

// TestPVCAppearsDuringCreatePod: the observation of it may arrive before the result that it is missing.
func TestPVCAppearsDuringCreatePod(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVMI(cluster.OnClaim("data")) })
	w.Lose = func(activity string) error {
		if activity == contract.ActivityCreatePod && w.Count(activity) == 1 {
			w.CreateClaim("data")
		}
		return nil
	}
	w.at(time.Minute, func() {
		require.NotNil(t, w.Pod())
		w.DeleteVMI()
	})
	w.at(2*time.Minute, func() { w.EndPod(contract.ReasonNeverRan, false, 0) })
	w.run(t)
}
