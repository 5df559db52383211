package machinemetrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// TestMachineMetrics: only the leader has them, and the informers keep all that they need.
//
//nolint:lll // lines of metrics
func TestMachineMetrics(t *testing.T) {
	i := newTestInformers(t)
	registry := leading(t, i, NewMachines)
	add := func(status kubevirt.VirtualMachinePrintableStatus, name string, at int64, failure string) {
		vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		vm.Status.PrintableStatus = status
		vm.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{watch.AnnotationOS: "fedora", watch.AnnotationWorkload: "server",
				watch.AnnotationFlavor: "small"}}}
		vm.Spec.Template.Spec.Domain.Machine = &kubevirt.Machine{Type: "q35"}
		vm.Status.Conditions = []kubevirt.VirtualMachineCondition{
			{Type: kubevirt.VirtualMachineReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(at, 0)}}
		if failure != "" {
			vm.Status.Conditions = append(vm.Status.Conditions, kubevirt.VirtualMachineCondition{
				Type: kubevirt.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: failure, Message: "long",
				LastTransitionTime: metav1.Unix(at+1, 0)})
		}
		keep(t, i.VMs.GetStore(), vm)
	}
	add(kubevirt.VirtualMachineStatusStarting, "slow", 1000, "")
	add(kubevirt.VirtualMachineStatusUnschedulable, "wide", 2000, "FailedCreate")
	add(kubevirt.VirtualMachineStatusUnschedulable, "wider", 1500, "FailedCreate")
	live := kubevirt.EvictionStrategyLiveMigrate
	keep(t, i.Pods.GetIndexer(), launcherPod("virt-launcher-runs", "n", corev1.PodRunning))
	keep(t, i.Pods.GetIndexer(), launcherPod("virt-launcher-target", "other", corev1.PodRunning))
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "runs", UID: "uid",
		Annotations: map[string]string{watch.AnnotationOS: "fedora"}},
		Spec: kubevirt.VirtualMachineInstanceSpec{EvictionStrategy: &live}}
	vmi.Status.Phase, vmi.Status.NodeName = kubevirt.Running, "n"
	vmi.Status.LauncherContainerImageVersion = "launcher:old"
	vmi.Status.Machine = &kubevirt.Machine{Type: "pc-q35-9.0"}
	vmi.Status.GuestOSInfo = kubevirt.VirtualMachineInstanceGuestOSInfo{Name: "Fedora", VersionID: "42",
		KernelRelease: strings.Repeat("6", 200), Machine: "x86_64", ID: "fedora"}
	vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{
		{Type: kubevirt.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionFalse},
		{Type: kubevirt.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse, Reason: "LauncherSilent",
			LastTransitionTime: metav1.Unix(3000, 0)}}
	keep(t, i.VMIs.GetStore(), vmi)

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_vm_info VMs by their printable status.
# TYPE kubevirt_vm_info gauge
kubevirt_vm_info{flavor="small",machine_type="q35",name="slow",namespace="a",os="fedora",status="starting",status_group="starting",workload="server"} 1
kubevirt_vm_info{flavor="small",machine_type="q35",name="wide",namespace="a",os="fedora",status="errorunschedulable",status_group="error",workload="server"} 1
kubevirt_vm_info{flavor="small",machine_type="q35",name="wider",namespace="a",os="fedora",status="errorunschedulable",status_group="error",workload="server"} 1
# HELP kubevirt_vm_error_status_last_transition_timestamp_seconds Last change of a VM of this group, or 0.
# TYPE kubevirt_vm_error_status_last_transition_timestamp_seconds counter
kubevirt_vm_error_status_last_transition_timestamp_seconds{name="slow",namespace="a"} 0
kubevirt_vm_error_status_last_transition_timestamp_seconds{name="wide",namespace="a"} 2001
kubevirt_vm_error_status_last_transition_timestamp_seconds{name="wider",namespace="a"} 1501
# HELP kubevirt_vm_starting_status_last_transition_timestamp_seconds Last change of a VM of this group, or 0.
# TYPE kubevirt_vm_starting_status_last_transition_timestamp_seconds counter
kubevirt_vm_starting_status_last_transition_timestamp_seconds{name="slow",namespace="a"} 1000
kubevirt_vm_starting_status_last_transition_timestamp_seconds{name="wide",namespace="a"} 0
kubevirt_vm_starting_status_last_transition_timestamp_seconds{name="wider",namespace="a"} 0
# HELP kubevirt_vmi_info VMIs by node and phase.
# TYPE kubevirt_vmi_info gauge
kubevirt_vmi_info{evictable="false",flavor="",guest_os_arch="x86_64",guest_os_kernel_release="`+strings.Repeat("6", 128)+`",guest_os_machine="pc-q35-9.0",guest_os_name="Fedora",guest_os_version_id="42",name="runs",namespace="a",node="n",os="fedora",outdated="true",phase="running",vmi_pod="virt-launcher-runs",workload=""} 1
# HELP kubevirt_vmi_non_evictable 1 for a VMI that a drain should migrate, but that cannot migrate.
# TYPE kubevirt_vmi_non_evictable gauge
kubevirt_vmi_non_evictable{name="runs",namespace="a",node="n"} 1
# HELP virtflow_failing VMs and VMIs with a failure in their conditions, by kind and reason.
# TYPE virtflow_failing gauge
virtflow_failing{kind="VirtualMachine",reason="FailedCreate"} 2
virtflow_failing{kind="VirtualMachineInstance",reason="LauncherSilent"} 1
# HELP virtflow_failing_oldest_timestamp_seconds When the oldest of these failures began, in seconds since 1970.
# TYPE virtflow_failing_oldest_timestamp_seconds gauge
virtflow_failing_oldest_timestamp_seconds{kind="VirtualMachine",reason="FailedCreate"} 1501
virtflow_failing_oldest_timestamp_seconds{kind="VirtualMachineInstance",reason="LauncherSilent"} 3000
`), "kubevirt_vm_info", "kubevirt_vm_error_status_last_transition_timestamp_seconds",
		"kubevirt_vm_starting_status_last_transition_timestamp_seconds", "kubevirt_vmi_info",
		"kubevirt_vmi_non_evictable", "virtflow_failing", "virtflow_failing_oldest_timestamp_seconds"))
}

// launcherPod returns a launcher pod of the VMI a/runs.
func launcherPod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name,
		Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
			contract.LabelCreatedBy: "uid"},
		Annotations: map[string]string{contract.AnnotationDomain: "runs"}}}
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	return pod
}

// TestLimitsFailureReasons: reasons come from conditions.
func TestLimitsFailureReasons(t *testing.T) {
	bad := failures{}
	for i := range 3 * mostReasons {
		bad.add("VirtualMachine", strings.Repeat("x", i+1), metav1.Unix(int64(1000-i), 0))
	}
	require.Len(t, bad, mostReasons+1)
	require.Equal(t, failed{count: 2 * mostReasons, oldest: float64(1000 - 3*mostReasons + 1)},
		bad[failure{kind: "VirtualMachine", reason: "other"}])
}

// TestGroupsEveryStatus: those of KubeVirt's API that have no group there have none here.
func TestGroupsEveryStatus(t *testing.T) {
	groups := map[kubevirt.VirtualMachinePrintableStatus]string{
		kubevirt.VirtualMachineStatusStopped:                 groupNonRunning,
		kubevirt.VirtualMachineStatusProvisioning:            groupStarting,
		kubevirt.VirtualMachineStatusStarting:                groupStarting,
		kubevirt.VirtualMachineStatusRunning:                 groupRunning,
		kubevirt.VirtualMachineStatusPaused:                  groupNonRunning,
		kubevirt.VirtualMachineStatusStopping:                groupNonRunning,
		kubevirt.VirtualMachineStatusTerminating:             groupNonRunning,
		kubevirt.VirtualMachineStatusCrashLoopBackOff:        groupError,
		kubevirt.VirtualMachineStatusMigrating:               groupMigrating,
		kubevirt.VirtualMachineStatusUnknown:                 groupError,
		kubevirt.VirtualMachineStatusUnschedulable:           groupError,
		kubevirt.VirtualMachineStatusErrImagePull:            groupError,
		kubevirt.VirtualMachineStatusImagePullBackOff:        groupError,
		kubevirt.VirtualMachineStatusPvcNotFound:             groupError,
		kubevirt.VirtualMachineStatusDataVolumeError:         groupError,
		kubevirt.VirtualMachineStatusWaitingForVolumeBinding: groupStarting,
		kubevirt.VirtualMachineStatusWaitingForReceiver:      groupUnknown,
	}
	for status, want := range groups {
		require.Equal(t, want, statusGroup(status), status)
	}
	require.Equal(t, groupUnknown, statusGroup("Whatever"))
	require.ElementsMatch(t, statusesOfTheAPI(t), slices.Collect(maps.Keys(groups)))
}

// statusesOfTheAPI returns the constants of KubeVirt's package.
func statusesOfTheAPI(t *testing.T) (out []kubevirt.VirtualMachinePrintableStatus) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "kubevirt.io/api/core/v1").Output()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "types.go"), nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "VirtualMachinePrintableStatus" {
			return false
		}
		for _, value := range spec.Values {
			literal, ok := value.(*ast.BasicLit)
			require.True(t, ok)
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			out = append(out, kubevirt.VirtualMachinePrintableStatus(text))
		}
		return false
	})
	return out
}

// TestMeasuresTimeToInstancePhases: each once, though one update adds several.
func TestMeasuresTimeToInstancePhases(t *testing.T) {
	m := NewMachines(func() *watch.Informers { return nil })
	born := time.Unix(1000, 0)
	reached := func(phases ...kubevirt.VirtualMachineInstancePhase) *kubevirt.VirtualMachineInstance {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web",
			CreationTimestamp: metav1.NewTime(born)}}
		for i, p := range phases {
			vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
				kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{Phase: p,
					PhaseTransitionTimestamp: metav1.NewTime(born.Add(time.Duration(i*i) * time.Second))})
		}
		return vmi
	}
	first := reached(kubevirt.Pending)
	second := reached(kubevirt.Pending, kubevirt.Scheduling, kubevirt.Scheduled, kubevirt.Running)
	end := reached(kubevirt.Pending, kubevirt.Scheduling, kubevirt.Scheduled, kubevirt.Running, kubevirt.Succeeded)
	deleted := metav1.NewTime(born.Add(12 * time.Second))
	end.DeletionTimestamp = &deleted
	m.observe(first, second)
	m.observe(second, second)
	m.observe(second, end)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	require.NoError(t, err)
	sums := map[string]map[string]float64{}
	for _, family := range families {
		sums[family.GetName()] = map[string]float64{}
		for _, metric := range family.GetMetric() {
			require.Equal(t, uint64(1), metric.GetHistogram().GetSampleCount())
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			sums[family.GetName()][strings.Join(labels, "→")] = metric.GetHistogram().GetSampleSum()
		}
	}
	require.Equal(t, map[string]map[string]float64{
		"kubevirt_vmi_phase_transition_time_seconds": {"Pending→Scheduling": 1, "Scheduling→Scheduled": 3,
			"Scheduled→Running": 5, "Running→Succeeded": 7},
		"kubevirt_vmi_phase_transition_time_from_creation_seconds": {"Scheduling": 1, "Scheduled": 4, "Running": 9,
			"Succeeded": 16},
		"kubevirt_vmi_phase_transition_time_from_deletion_seconds": {"Succeeded": 4},
	}, sums)
}
