package render

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/internal/settings"
)

func move(selector map[string]string) *kubevirt.VirtualMachineInstanceMigration {
	return &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "move", Namespace: "default", UID: "9d1b6c2e-0000-4000-8000-000000000000"},
		Spec:       kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: "web", AddedNodeSelector: selector},
	}
}

func onNode(labels map[string]string) TargetOptions {
	return TargetOptions{
		Options: Options{Image: "localhost/virtflow/launcher:dev", Settings: settings.Default()},
		Source:  &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node1"}},
		Node:    &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: labels}},
	}
}

// skylake are labels of a node as a node worker has them written.
func skylake() map[string]string {
	return map[string]string{
		"host-model-cpu.node.kubevirt.io/Skylake-Client-IBRS": "true", "cpu-model.node.kubevirt.io/Penryn": "true",
		"host-model-required-features.node.kubevirt.io/ss": "true", "cpu-vendor.node.kubevirt.io/Intel": "true",
		"cpu-feature.node.kubevirt.io/aes": "true", "virtflow.io/virt-type": "kvm", "kubernetes.io/hostname": "node1",
	}
}

func TestTargetGolden(t *testing.T) {
	vmi := example()
	vmi.Labels["kubevirt.io/nodeName"], vmi.Labels["kubevirt.io/outdatedLauncherImage"] = "node1", ""
	vmi.Spec.NodeSelector = map[string]string{"disk": "fast"}
	vmi.Status.Machine = &kubevirt.Machine{Type: "pc-q35-7.2"}
	o := onNode(skylake())
	o.PreferNode = "node3"
	o.Source.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: compute,
		VolumeMounts: []corev1.VolumeMountStatus{{Name: "image-root", VolumeStatus: &corev1.VolumeStatus{
			Image: &corev1.ImageVolumeStatus{ImageRef: "localhost/guest@sha256:abc"}}}}}}
	pod, err := Target(vmi, move(map[string]string{"zone": "b", "disk": "slow", "kubevirt.io/schedulable": "true",
		"kubernetes.io/arch": "arm64"}), o)
	require.NoError(t, err)
	got, err := yaml.Marshal(pod)
	require.NoError(t, err)
	require.NotContains(t, string(got), "hunter2")
	file := filepath.Join("testdata", "target.yaml")
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "if this is meant: go test ./activities/cluster/render -update")
}

// TestATargetIsNotProbedBeforeItsGuestIsThere: a kubelet asks for life only once its guest has arrived, whatever the
// probe is, and gives that as long as it takes. An instance's first pod has its guest from the start on.
func TestATargetIsNotProbedBeforeItsGuestIsThere(t *testing.T) {
	for name, handler := range map[string]kubevirt.Handler{
		"by TCP":       {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(22)}},
		"by HTTP":      {HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}},
		"by its agent": {GuestAgentPing: &kubevirt.GuestAgentPing{}},
	} {
		vmi := example()
		vmi.Spec.LivenessProbe = &kubevirt.Probe{Handler: handler, FailureThreshold: 1}
		first, err := Pod(vmi, onNode(nil).Options)
		require.NoError(t, err)
		require.Nil(t, first.Spec.Containers[0].StartupProbe, name)
		target, err := Target(vmi, move(nil), onNode(skylake()))
		require.NoError(t, err)
		p := target.Spec.Containers[0].StartupProbe
		require.NotNil(t, p, name)
		require.Equal(t, []string{"/usr/bin/launcher", "probe", "--arrived"}, p.Exec.Command)
		require.Greater(t, time.Duration(p.FailureThreshold)*time.Second, 10*365*24*time.Hour)
	}
	vmi := example()
	vmi.Spec.LivenessProbe = nil
	target, err := Target(vmi, move(nil), onNode(skylake()))
	require.NoError(t, err)
	require.Nil(t, target.Spec.Containers[0].StartupProbe)
}

// TestATargetIsThePodOfItsVMI: a target pod equals the VMI's pod in everything that the guest sees: it has the same
// container and the same Secret.
func TestATargetIsThePodOfItsVMI(t *testing.T) {
	vmi := example()
	first, err := Pod(vmi, onNode(nil).Options)
	require.NoError(t, err)
	target, err := Target(vmi, move(nil), onNode(skylake()))
	require.NoError(t, err)
	require.NotEqual(t, first.Name, target.Name)
	require.NotEqual(t, target.Name, TargetName(vmi.Name, string(vmi.UID), "another"))
	require.NotEqual(t, target.Name, TargetName(vmi.Name, "another", string(move(nil).UID)))
	require.Equal(t, first.Spec.Containers, target.Spec.Containers)
	require.Equal(t, first.Spec.Volumes, target.Spec.Volumes)
	require.Equal(t, first.OwnerReferences, target.OwnerReferences)
	require.Equal(t, first.Finalizers, target.Finalizers)
	require.Equal(t, first.Spec.ReadinessGates, target.Spec.ReadinessGates)
	require.NotContains(t, first.Labels, "kubevirt.io/migrationJobUID")
}

func TestATargetIsApartFromTheVMIsOtherPods(t *testing.T) {
	vmi := example()
	own := corev1.PodAffinityTerm{TopologyKey: "zone"}
	vmi.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own}}}
	pod, err := Target(vmi, move(nil), onNode(skylake()))
	require.NoError(t, err)
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	require.Len(t, terms, 2)
	require.Equal(t, own, terms[0])
	require.Equal(t, string(vmi.UID), terms[1].LabelSelector.MatchLabels["kubevirt.io/created-by"])
	require.Len(t, vmi.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, 1)
}

// TestAGuestFindsItsCPUAgain: what it got from the host that it was booted on is on the next one, too.
func TestAGuestFindsItsCPUAgain(t *testing.T) {
	const model, feature, vendor = "cpu-model-migration.node.kubevirt.io/Skylake-Client-IBRS",
		"cpu-feature.node.kubevirt.io/ss", "cpu-vendor.node.kubevirt.io/Intel"
	before := map[string]string{model: "true", feature: "true", vendor: "true", "zone": "a"}
	other := map[string]string{"host-model-cpu.node.kubevirt.io/Icelake-Server": "true"}
	for name, c := range map[string]struct {
		model  string
		source map[string]string // selector of the source's pod
		node   map[string]string
		kvm    bool // KVM is not asked for
		want   []string
		err    string
	}{
		"host-model":                 {"host-model", nil, skylake(), false, []string{model, feature, vendor}, ""},
		"no model":                   {"", nil, skylake(), false, []string{model, feature, vendor}, ""},
		"host-model, moved before":   {"host-model", before, other, false, []string{model, feature, vendor}, ""},
		"host-model, node is gone":   {"host-model", nil, nil, false, nil, "does not exist"},
		"moved before, node is gone": {"host-model", before, nil, false, []string{model, feature, vendor}, ""},
		"host-model, no label":       {"host-model", nil, map[string]string{}, false, nil, "does not allow migration"},
		"host-model, emulated":       {"host-model", nil, map[string]string{}, true, nil, ""},
		"host-passthrough":           {"host-passthrough", nil, nil, false, nil, ""},
		"a model":                    {"Penryn", before, nil, false, nil, ""},
		"found KVM":                  {"Penryn", nil, skylake(), true, []string{"virtflow.io/virt-type"}, ""},
		"no KVM": {"Penryn", nil, map[string]string{"virtflow.io/virt-type": "qemu"}, true, nil,
			""},
		"had KVM": {"Penryn", map[string]string{"virtflow.io/virt-type": "kvm"}, nil, true,
			[]string{"virtflow.io/virt-type"}, ""},
		"a feature, never moved": {"host-model", map[string]string{"cpu-feature.node.kubevirt.io/aes": "true"},
			skylake(), false, []string{model, feature, vendor, "cpu-feature.node.kubevirt.io/aes"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := example()
			vmi.Spec.Domain.CPU.Model = c.model
			o := onNode(c.node)
			if c.node == nil {
				o.Node = nil
			}
			o.Source.Spec.NodeSelector, o.Settings.UseEmulation = c.source, c.kvm
			plain, err := Pod(vmi, o.Options)
			require.NoError(t, err)
			pod, err := Target(vmi, move(nil), o)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.True(t, NeedsNode(vmi, o))
				return
			}
			require.NoError(t, err)
			require.True(t, o.Node != nil || !NeedsNode(vmi, o))
			var got []string
			for k := range pod.Spec.NodeSelector {
				if _, ok := plain.Spec.NodeSelector[k]; !ok {
					got = append(got, k)
				}
			}
			require.ElementsMatch(t, c.want, got)
		})
	}
}

func TestAnImageIsPinnedWhereItsDigestIsKnown(t *testing.T) {
	for _, c := range []struct{ reference, ref, want string }{
		{"localhost/guest:1", "localhost/guest@sha256:abc", "localhost/guest@sha256:abc"},
		{"registry:5000/a/guest", "mirror/a/guest@sha256:abc", "registry:5000/a/guest@sha256:abc"},
		{"registry:5000/a/guest:1", "x@sha256:abc", "registry:5000/a/guest@sha256:abc"},
		{"guest@sha256:old", "guest@sha256:abc", "guest@sha256:abc"},
		{"guest:1", "sha256:abc", ""}, // an image's ID
		{"guest:1", "guest:1", ""}, {"guest:1", "", ""}, {"guest:1", "guest@md5:abc", ""},
	} {
		got, ok := byDigest(c.reference, c.ref)
		require.Equal(t, c.want, got)
		require.Equal(t, c.want != "", ok)
	}
}

// TestAGuestKeepsTheMACsOfItsNetworks: Multus is asked for those that it took from its first pod, and so is its
// launcher, which has its frames dropped otherwise.
func TestAGuestKeepsTheMACsOfItsNetworks(t *testing.T) {
	vmi := example()
	for _, name := range []string{"second", "third"} {
		vmi.Spec.Networks = append(vmi.Spec.Networks, kubevirt.Network{Name: name,
			NetworkSource: kubevirt.NetworkSource{Multus: &kubevirt.MultusNetwork{NetworkName: "blue"}}})
	}
	vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces,
		kubevirt.Interface{Name: "second"}, kubevirt.Interface{Name: "third", MacAddress: "02:00:00:00:00:03"})
	for i, name := range []string{"default", "second", "third"} {
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, kubevirt.VirtualMachineInstanceNetworkInterface{
			Name: name, MAC: fmt.Sprintf("02:00:00:00:01:%02d", i)})
	}
	pod, err := Target(vmi, move(nil), onNode(skylake()))
	require.NoError(t, err)
	require.Contains(t, pod.Annotations[multus.AnnotationNetworks], `"mac":"02:00:00:00:01:01"`)
	require.Contains(t, pod.Annotations[multus.AnnotationNetworks], `"mac":"02:00:00:00:00:03"`)
	launched := &kubevirt.VirtualMachineInstance{}
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations[contract.AnnotationVMISpec]), launched))
	require.Equal(t, []string{"", "02:00:00:00:01:01", "02:00:00:00:00:03"}, []string{
		launched.Spec.Domain.Devices.Interfaces[0].MacAddress, launched.Spec.Domain.Devices.Interfaces[1].MacAddress,
		launched.Spec.Domain.Devices.Interfaces[2].MacAddress})
	require.Empty(t, vmi.Spec.Domain.Devices.Interfaces[1].MacAddress, "the instance stays as it is")
}
