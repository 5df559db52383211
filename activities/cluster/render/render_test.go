package render

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/settings"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func example() *kubevirt.VirtualMachineInstance {
	memory := resource.MustParse("128Mi")
	return &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "3f2a9c1e-0000-4000-8000-000000000000",
			Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{"note": "kept",
				"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
		},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			Architecture: "amd64",
			Domain: kubevirt.DomainSpec{
				Memory: &kubevirt.Memory{Guest: &memory}, CPU: &kubevirt.CPU{Sockets: 1, Cores: 1, Threads: 1},
				Devices: kubevirt.Devices{
					Interfaces: []kubevirt.Interface{
						{Name: "default", Ports: []kubevirt.Port{{Name: "ssh", Port: 22}}}}},
			},
			Networks: []kubevirt.Network{*kubevirt.DefaultPodNetwork()},
			Volumes: []kubevirt.Volume{
				{Name: "root", VolumeSource: kubevirt.VolumeSource{ContainerDisk: &kubevirt.ContainerDiskSource{
					Image: "localhost/guest:1", ImagePullPolicy: corev1.PullIfNotPresent, ImagePullSecret: "registry",
				}}},
				{Name: "data", VolumeSource: kubevirt.VolumeSource{
					EmptyDisk: &kubevirt.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}},
				{Name: "init", VolumeSource: kubevirt.VolumeSource{CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{
					UserData: "hunter2", NetworkDataSecretRef: &corev1.LocalObjectReference{Name: "net"},
				}}},
			},
		},
	}
}

func TestPodGolden(t *testing.T) {
	emulated := settings.Default()
	emulated.UseEmulation = true
	grace := int64(5)
	full := example()
	full.Spec.TerminationGracePeriodSeconds = &grace
	full.Spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi"),
		corev1.ResourceCPU: resource.MustParse("1")}
	full.Spec.NodeSelector = map[string]string{"disk": "fast"}
	full.Spec.ReadinessProbe = &kubevirt.Probe{
		Handler: kubevirt.Handler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(22)}}, InitialDelaySeconds: 5}
	full.Spec.LivenessProbe = &kubevirt.Probe{Handler: kubevirt.Handler{GuestAgentPing: &kubevirt.GuestAgentPing{}},
		TimeoutSeconds: 3}
	for name, c := range map[string]struct {
		vmi      *kubevirt.VirtualMachineInstance
		settings settings.Settings
	}{"emulated": {example(), emulated}, "kvm-limited-probed": {full, settings.Default()}} {
		t.Run(name, func(t *testing.T) {
			pod, err := Pod(c.vmi, Options{Image: "localhost/virtflow/launcher:dev", Settings: c.settings})
			require.NoError(t, err)
			got, err := yaml.Marshal(pod)
			require.NoError(t, err)
			require.NotContains(t, string(got), "hunter2")
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "if this is meant: go test ./activities/cluster/render -update")
		})
	}
}

func TestSecret(t *testing.T) {
	s, err := Secret(example())
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"init.userdata": []byte("hunter2")}, s.Data)
	require.Equal(t, PodName("web", "3f2a9c1e-0000-4000-8000-000000000000")+"-cloud-init", s.Name)
	require.Equal(t, "true", s.Labels["velero.io/exclude-from-backup"])
	vmi := example()
	vmi.Spec.Volumes = vmi.Spec.Volumes[:1]
	s, err = Secret(vmi)
	require.NoError(t, err)
	require.Nil(t, s)
	vmi.Spec.Volumes[0] = kubevirt.Volume{Name: "x",
		VolumeSource: kubevirt.VolumeSource{
			CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{UserDataBase64: "%%hunter2"}}}
	_, err = Secret(vmi)
	require.ErrorContains(t, err, "spec.volumes[0]")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestUnsupportedVolume(t *testing.T) {
	vmi := example()
	vmi.Spec.Volumes = append(vmi.Spec.Volumes,
		kubevirt.Volume{Name: "host",
			VolumeSource: kubevirt.VolumeSource{HostDisk: &kubevirt.HostDisk{Path: "/x"}}})
	_, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.ErrorContains(t, err, "spec.volumes[3] (host)")
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "with.dots", strings.Repeat("long-", 12) + "x", strings.Repeat("x", 250)} {
		pod := PodName(name, "uid")
		require.Empty(t, validation.IsDNS1123Subdomain(pod), pod)
		require.LessOrEqual(t, len(pod), validation.DNS1123LabelMaxLength)
		require.NotEqual(t, pod, PodName(name, "another"))
		require.Empty(t, validation.IsDNS1123Label(volumeName("cloud-init", name)), name)
		require.Empty(t, validation.IsValidLabelValue(observe.NameLabel(name)), name)
		require.Empty(t, validation.IsDNS1123Label(hostname("", name)), name)
	}
}

// TestOverhead has KubeVirt's own example: one virtual CPU, graphics, amd64, no limits.
func TestOverhead(t *testing.T) {
	vmi := example()
	require.EqualValues(t, 268*mi, Overhead(vmi, settings.Default()))
	vmi.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	require.EqualValues(t, 269*mi, Overhead(vmi, settings.Default()))
	s := settings.Default()
	s.UseEmulation = true
	require.EqualValues(t, 333*mi, Overhead(vmi, s))
}

// TestDisksAreLimited: a launcher's disk space is limited to what the guest can write and what its images need.
func TestDisksAreLimited(t *testing.T) {
	const gi = 1 << 30
	limit := func(vmi *kubevirt.VirtualMachineInstance) int64 {
		pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
		require.NoError(t, err)
		for _, v := range pod.Spec.Volumes {
			if v.Name == "disks" {
				return v.EmptyDir.SizeLimit.Value()
			}
		}
		return 0
	}
	vmi := example()
	require.Greater(t, limit(vmi), int64(65*gi), "a containerDisk's overlay and an emptyDisk of 1 GiB")
	require.Less(t, limit(vmi), int64(66*gi))
	vmi.Spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("100Gi")}
	require.Greater(t, limit(vmi), int64(101*gi))
	vmi.Spec.Volumes = vmi.Spec.Volumes[1:2]
	require.Greater(t, limit(vmi), int64(gi+gi/8192+gi/32768), "the metadata of a full image of 1 GiB")
	require.Less(t, limit(vmi), int64(gi+gi/8))
}

func TestLimitsThatAQuotaAsksFor(t *testing.T) {
	quota := func(names ...corev1.ResourceName) []corev1.ResourceQuota {
		q := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
		for _, name := range names {
			q.Spec.Hard[name] = resource.MustParse("1")
		}
		return []corev1.ResourceQuota{{}, q}
	}
	limits := func(
		vmi *kubevirt.VirtualMachineInstance, quotas []corev1.ResourceQuota, ratio string,
	) (cpu, memory int64) {
		labels := map[string]string{"alpha.kubevirt.io/auto-memory-limits-ratio": ratio}
		pod, err := Pod(vmi, Options{
			Image: "x", Settings: settings.Default(), Limited: LimitedBy(quotas).WithRatio(labels)})
		require.NoError(t, err)
		l := pod.Spec.Containers[0].Resources.Limits
		return l.Cpu().Value(), l.Memory().Value()
	}
	vmi := example()
	vmi.Spec.Domain.CPU.Cores = 3
	request := 128*mi + Overhead(vmi, settings.Default())
	for name, c := range map[string]struct {
		quotas      []corev1.ResourceQuota
		ratio       string
		cpu, memory int64
	}{
		"none":                  {nil, "1.2", 0, 0},
		"pods":                  {quota(corev1.ResourcePods, corev1.ResourceRequestsMemory), "", 0, 0},
		"cpu":                   {quota(corev1.ResourceLimitsCPU), "1.2", 3, 0},
		"memory":                {quota(corev1.ResourceLimitsMemory), "", 0, 2 * request},
		"memory by a ratio":     {quota(corev1.ResourceLimitsMemory), "1.5", 0, request * 3 / 2},
		"by the least":          {quota(corev1.ResourceLimitsMemory), "1", 0, request},
		"by less":               {quota(corev1.ResourceLimitsMemory), "0.9", 0, 2 * request},
		"by what is no number":  {quota(corev1.ResourceLimitsMemory), "much", 0, 2 * request},
		"by NaN":                {quota(corev1.ResourceLimitsMemory), "NaN", 0, 2 * request},
		"by more than there is": {quota(corev1.ResourceLimitsMemory), "1e300", 0, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			cpu, memory := limits(vmi, c.quotas, c.ratio)
			require.Equal(t, []int64{c.cpu, c.memory}, []int64{cpu, memory})
		})
	}
	vmi.Spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}
	cpu, _ := limits(vmi, quota(corev1.ResourceLimitsCPU), "")
	require.EqualValues(t, 7, cpu, "the user's own")
}

func TestLaunchedKeepsTheVolumes(t *testing.T) {
	l := VMIForLauncher(example(), &settings.Settings{})
	require.Len(t, l.Spec.Volumes, 3)
	require.NotNil(t, l.Spec.Volumes[2].CloudInitNoCloud)
	require.Empty(t, l.Spec.Volumes[2].CloudInitNoCloud.UserData)
	require.NotEmpty(t, l.UID)
}

// TestLaunchedHasLabelsForMetrics: the node worker reads them from the launcher's pod.
func TestLaunchedHasLabelsForMetrics(t *testing.T) {
	vmi := example()
	vmi.Labels = map[string]string{"app": "web", contract.LabelNodeName: "node1"}
	require.Equal(t, map[string]string{"app": "web"}, VMIForLauncher(vmi, &settings.Settings{}).Labels)
}

// TestWhatTheConfigurationSaysOfEveryMachine reaches the launcher, but for what the VMI itself says otherwise.
func TestWhatTheConfigurationSaysOfEveryMachine(t *testing.T) {
	period := uint32(60)
	kv := kubevirt.KubeVirt{Spec: kubevirt.KubeVirtSpec{Configuration: kubevirt.KubeVirtConfiguration{
		DefaultRuntimeClass: "kata", MemBalloonStatsPeriod: &period,
		SMBIOSConfig: &kubevirt.SMBiosConfiguration{Manufacturer: "Example"},
		VirtualMachineOptions: &kubevirt.VirtualMachineOptions{
			DisableFreePageReporting: &kubevirt.DisableFreePageReporting{},
			DisableSerialConsoleLog:  &kubevirt.DisableSerialConsoleLog{}},
	}}}
	kv.Annotations = map[string]string{"kubevirt.io/vga-display-efi-x86": ""}
	s := settings.From(&kv)
	vmi := example()
	pod, err := Pod(vmi, Options{Image: "x", Settings: s})
	require.NoError(t, err)
	require.Equal(t, "kata", *pod.Spec.RuntimeClassName)
	require.Contains(t, pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "HARDWARE", Value: `{"balloonStats":60,` +
		`"smbios":{"manufacturer":"Example","product":"None","family":"KubeVirt"},` +
		`"disks":{"reserve":131072,"tolerateLess":10,"probeMemory":2097152000}}`})
	launched := VMIForLauncher(vmi, &s)
	require.Equal(t, "true", launched.Annotations[kubevirt.FreePageReportingDisabledAnnotation])
	require.Contains(t, launched.Annotations, kubevirt.VGADisplayForEFIGuestsX86Annotation)
	require.False(t, *launched.Spec.Domain.Devices.LogSerialConsole)
	require.Nil(t, vmi.Spec.Domain.Devices.LogSerialConsole, "the VMI itself stays as it is")

	yes := true
	vmi.Spec.Domain.Devices.LogSerialConsole = &yes
	require.True(t, *VMIForLauncher(vmi, &s).Spec.Domain.Devices.LogSerialConsole)

	vmi = example()
	vmi.Annotations = map[string]string{kubevirt.VGADisplayForEFIGuestsX86Annotation: ""}
	defaults := settings.Default()
	require.NotContains(t, VMIForLauncher(vmi, &defaults).Annotations, kubevirt.VGADisplayForEFIGuestsX86Annotation,
		"it is the cluster's")

	pod, err = Pod(example(), Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	require.Nil(t, pod.Spec.RuntimeClassName)
	for _, e := range pod.Spec.Containers[0].Env {
		require.NotEqual(t, "HARDWARE", e.Name)
	}
}

// TestSeccompProfile: pod and container have the cluster's profile, since the container's replaces the pod's.
func TestSeccompProfile(t *testing.T) {
	standard := corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for name, c := range map[string]struct {
		custom *kubevirt.CustomProfile
		want   corev1.SeccompProfile
	}{
		"none":          {want: standard},
		"neither":       {custom: &kubevirt.CustomProfile{}, want: standard},
		"the runtime's": {custom: &kubevirt.CustomProfile{RuntimeDefaultProfile: true}, want: standard},
		"a file": {custom: &kubevirt.CustomProfile{LocalhostProfile: new("vm/launcher.json")},
			want: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost,
				LocalhostProfile: new("vm/launcher.json")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.Default()
			s.Configuration.SeccompConfiguration = &kubevirt.SeccompConfiguration{
				VirtualMachineInstanceProfile: &kubevirt.VirtualMachineInstanceProfile{CustomProfile: c.custom}}
			pod, err := Pod(example(), Options{Image: "x", Settings: s})
			require.NoError(t, err)
			require.Equal(t, c.want, *pod.Spec.SecurityContext.SeccompProfile)
			require.Equal(t, c.want, *pod.Spec.Containers[0].SecurityContext.SeccompProfile)
		})
	}
}

// TestPullSecrets: those of the disks, then the administrator's for the launcher, each once.
func TestPullSecrets(t *testing.T) {
	s := settings.From(&kubevirt.KubeVirt{
		Spec: kubevirt.KubeVirtSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "launcher"}, {Name: "registry"}, {}}}})
	pod, err := Pod(example(), Options{Image: "x", Settings: s})
	require.NoError(t, err)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}, {Name: "launcher"}}, pod.Spec.ImagePullSecrets)
}

// TestAnEphemeralVolumesFileSystemIsMountedReadOnly: it is mounted read-only by its volume source, too: the kubelet
// then changes no file's group. A device has no mount, and the CSI driver that attaches it may refuse to attach it
// read-only.
func TestAnEphemeralVolumesFileSystemIsMountedReadOnly(t *testing.T) {
	for mode, readOnly := range map[corev1.PersistentVolumeMode]bool{
		corev1.PersistentVolumeFilesystem: true, corev1.PersistentVolumeBlock: false,
	} {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "u"}}
		vmi.Spec.Volumes = []kubevirt.Volume{{Name: "data", VolumeSource: kubevirt.VolumeSource{
			Ephemeral: &kubevirt.EphemeralVolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
		vmi.Status.VolumeStatus = []kubevirt.VolumeStatus{{Name: "data",
			PersistentVolumeClaimInfo: &kubevirt.PersistentVolumeClaimInfo{VolumeMode: &mode}}}
		pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
		require.NoError(t, err)
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				require.Equal(t, readOnly, v.PersistentVolumeClaim.ReadOnly, mode)
			}
		}
	}
}

func TestBothLimits(t *testing.T) {
	require.Equal(t, Limited{CPU: true, Memory: true, Ratio: 1.5},
		Limited{CPU: true}.Or(Limited{Memory: true, Ratio: 1.5}))
	require.Equal(t, Limited{}, Limited{}.Or(Limited{}))
}

func TestLauncherLogsAsVerboseAsAsked(t *testing.T) {
	env := func(verbosity uint) []corev1.EnvVar {
		s := settings.Default()
		s.Configuration.DeveloperConfiguration = &kubevirt.DeveloperConfiguration{
			LogVerbosity: &kubevirt.LogVerbosity{VirtLauncher: verbosity}}
		pod, err := Pod(example(), Options{Image: "x", Settings: s})
		require.NoError(t, err)
		return pod.Spec.Containers[0].Env
	}
	require.Contains(t, env(4), corev1.EnvVar{Name: process.EnvPrefix + "LOG_LEVEL", Value: "debug"})
	require.Equal(t, env(0), env(2), "KubeVirt's default leaves the launcher's")
	require.Len(t, env(9), len(env(2))+1)
}
