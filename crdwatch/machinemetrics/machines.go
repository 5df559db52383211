package machinemetrics

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// Machines has KubeVirt's metrics of VMs and VMIs, with its names and its labels as far as crdwatch knows them,
// and virtflow's metrics of what fails. It computes them from the leader's informers.
type Machines struct {
	leading Leader

	vm, vmi, nonEvictable, outdated, runtime *prometheus.Desc
	// since has the metrics of when a VM came to its status, by the group of statuses.
	since                    map[string]*prometheus.Desc
	failing, failingOldest   *prometheus.Desc
	steps                    *prometheus.HistogramVec
	fromCreation, fromDelete *prometheus.HistogramVec
}

// The groups of a VM's printableStatus, by KubeVirt's names.
const (
	groupStarting, groupRunning, groupMigrating = "starting", "running", "migrating"
	groupNonRunning, groupError, groupUnknown   = "non_running", "error", "<unknown>"
)

// NewMachines returns the metrics of the leader's VMs and VMIs.
func NewMachines(leading Leader) *Machines {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: name, Help: help, Buckets: phaseBuckets()}, labels)
	}
	m := &Machines{
		leading: leading, since: map[string]*prometheus.Desc{},
		vm: desc("kubevirt_vm_info", "VMs by their printable status.", "name", "namespace", "os", "workload", "flavor",
			"machine_type", "status", "status_group"),
		vmi: desc("kubevirt_vmi_info", "VMIs by node and phase.", "node", "namespace", "name", "phase", "os",
			"workload", "flavor", "guest_os_kernel_release", "guest_os_machine", "guest_os_arch", "guest_os_name",
			"guest_os_version_id", "evictable", "outdated", "vmi_pod"),
		nonEvictable: desc("kubevirt_vmi_non_evictable",
			"1 for a VMI that a drain should migrate, but that cannot migrate.", "node", "namespace", "name"),
		outdated: desc("kubevirt_vmi_number_of_outdated", "VMIs whose launchers have another image than new ones get."),
		runtime: desc("virtflow_node_vulnerable_runtime",
			"1 for a node whose containerd has known vulnerabilities.", "node", "runtime"),
		failing: desc("virtflow_failing", "VMs and VMIs with a failure in their conditions, by kind and reason.",
			"kind", "reason"),
		failingOldest: desc("virtflow_failing_oldest_timestamp_seconds",
			"When the oldest of these failures began, in seconds since 1970.", "kind", "reason"),
		steps: histogram("kubevirt_vmi_phase_transition_time_seconds",
			"Time that a VMI took from one phase to the next.", "phase", "last_phase"),
		fromCreation: histogram("kubevirt_vmi_phase_transition_time_from_creation_seconds",
			"Time from the creation of a VMI to its phases.", "phase"),
		fromDelete: histogram("kubevirt_vmi_phase_transition_time_from_deletion_seconds",
			"Time from the deletion of a VMI to its last phases.", "phase"),
	}
	for _, group := range []string{groupStarting, groupRunning, groupMigrating, groupNonRunning, groupError} {
		m.since[group] = desc(fmt.Sprintf("kubevirt_vm_%s_status_last_transition_timestamp_seconds", group),
			"Last change of a VM of this group, or 0.",
			"name", "namespace")
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Machines) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.vm, m.vmi, m.nonEvictable, m.outdated, m.runtime, m.failing,
		m.failingOldest} {
		out <- d
	}
	for _, d := range m.since {
		out <- d
	}
	m.steps.Describe(out)
	m.fromCreation.Describe(out)
	m.fromDelete.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Machines) Collect(out chan<- prometheus.Metric) {
	m.steps.Collect(out)
	m.fromCreation.Collect(out)
	m.fromDelete.Collect(out)
	i := m.leading()
	if i == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, node := range watch.List[*corev1.Node](i.Nodes) {
		if runtime := node.Status.NodeInfo.ContainerRuntimeVersion; isVulnerableRuntime(runtime) {
			gauge(m.runtime, 1, node.Name, runtime)
		}
	}
	bad := failures{}
	for _, vm := range watch.List[*kubevirt.VirtualMachine](i.VMs) {
		status := string(vm.Status.PrintableStatus)
		group := statusGroup(vm.Status.PrintableStatus)
		about := descriptionOf(vm)
		gauge(m.vm, 1, vm.Name, vm.Namespace, about.os, about.workload, about.flavor, about.machine,
			strings.ToLower(status), group)
		var last float64
		for _, c := range vm.Status.Conditions {
			last = max(last, seconds(&c.LastTransitionTime))
			if c.Type == kubevirt.VirtualMachineFailure && c.Status == corev1.ConditionTrue {
				bad.add("VirtualMachine", c.Reason, c.LastTransitionTime)
			}
		}
		for g, d := range m.since {
			value := 0.0
			if g == group {
				value = last
			}
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, vm.Name, vm.Namespace)
		}
	}
	for _, vmi := range watch.List[*kubevirt.VirtualMachineInstance](i.VMIs) {
		gauge(m.vmi, 1, m.vmiLabels(i, vmi)...)
		if vmi.Status.Phase == kubevirt.Running {
			gauge(m.nonEvictable, number(isNonEvictable(vmi)), vmi.Status.NodeName, vmi.Namespace, vmi.Name)
		}
		for _, c := range vmi.Status.Conditions {
			if c.Type == kubevirt.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse {
				bad.add("VirtualMachineInstance", c.Reason, c.LastTransitionTime)
			}
		}
	}
	gauge(m.outdated, float64(i.CountOutdated()))
	for f, n := range bad {
		gauge(m.failing, float64(n.count), f.kind, f.reason)
		gauge(m.failingOldest, n.oldest, f.kind, f.reason)
	}
}

// description has the labels of a VM that its template decides.
type description struct{ os, workload, flavor, machine string }

func descriptionOf(vm *kubevirt.VirtualMachine) description {
	t := vm.Spec.Template
	if t == nil {
		return description{}
	}
	of := t.ObjectMeta.Annotations
	d := description{os: of[watch.AnnotationOS], workload: of[watch.AnnotationWorkload],
		flavor: of[watch.AnnotationFlavor]}
	if m := t.Spec.Domain.Machine; m != nil {
		d.machine = m.Type
	}
	return d
}

// vmiLabels returns the labels of an instance's kubevirt_vmi_info; "" is what is not known.
func (m *Machines) vmiLabels(i *watch.Informers, vmi *kubevirt.VirtualMachineInstance) []string {
	outdated, machine, pod := "", "", ""
	if vmi.Status.LauncherContainerImageVersion != "" && i.Image != "" {
		outdated = strconv.FormatBool(observe.Outdated(vmi, i.Image))
	}
	if vmi.Status.Machine != nil {
		machine = vmi.Status.Machine.Type
	}
	if launcher := i.LauncherOf(vmi); launcher != nil {
		pod = launcher.Name
	}
	of, guest := vmi.Annotations, &vmi.Status.GuestOSInfo
	return []string{vmi.Status.NodeName, vmi.Namespace, vmi.Name, strings.ToLower(string(vmi.Status.Phase)),
		of[watch.AnnotationOS], of[watch.AnnotationWorkload], of[watch.AnnotationFlavor], guest.KernelRelease, machine,
		guest.Machine, guest.Name, guest.VersionID, strconv.FormatBool(!isNonEvictable(vmi)), outdated, pod}
}

type (
	failure struct{ kind, reason string }
	failed  struct {
		count  int
		oldest float64
	}
	failures map[failure]failed
)

// mostReasons limits the number of reasons, which come from conditions, and become label values.
const mostReasons = 50

func (f failures) add(kind, reason string, since metav1.Time) {
	key := failure{kind: kind, reason: reason}
	known, ok := f[key]
	if !ok && len(f) >= mostReasons {
		key.reason = "other"
		known, ok = f[key]
	}
	at := max(0, seconds(&since))
	if ok {
		at = min(at, known.oldest)
	}
	f[key] = failed{count: known.count + 1, oldest: at}
}

// statusGroup returns KubeVirt's group of a VM's printable status. WaitingForReceiver is in no group there either:
// https://github.com/kubevirt/kubevirt/blob/main/pkg/monitoring/metrics/virt-controller/vmstats_collector.go
func statusGroup(s kubevirt.VirtualMachinePrintableStatus) string {
	switch s {
	case kubevirt.VirtualMachineStatusProvisioning, kubevirt.VirtualMachineStatusStarting,
		kubevirt.VirtualMachineStatusWaitingForVolumeBinding:
		return groupStarting
	case kubevirt.VirtualMachineStatusRunning:
		return groupRunning
	case kubevirt.VirtualMachineStatusMigrating:
		return groupMigrating
	case kubevirt.VirtualMachineStatusStopped, kubevirt.VirtualMachineStatusPaused,
		kubevirt.VirtualMachineStatusStopping, kubevirt.VirtualMachineStatusTerminating:
		return groupNonRunning
	case kubevirt.VirtualMachineStatusCrashLoopBackOff, kubevirt.VirtualMachineStatusUnknown,
		kubevirt.VirtualMachineStatusUnschedulable, kubevirt.VirtualMachineStatusErrImagePull,
		kubevirt.VirtualMachineStatusImagePullBackOff, kubevirt.VirtualMachineStatusPvcNotFound,
		kubevirt.VirtualMachineStatusDataVolumeError:
		return groupError
	default:
		return groupUnknown
	}
}

// isNonEvictable reports whether a drain should migrate a VMI that cannot migrate.
func isNonEvictable(vmi *kubevirt.VirtualMachineInstance) bool {
	s := vmi.Spec.EvictionStrategy
	return s != nil && *s == kubevirt.EvictionStrategyLiveMigrate && !vmi.IsMigratable()
}

// Follow observes the phases of instances while this process leads.
func (m *Machines) Follow(i *watch.Informers) error {
	return followUpdates(m.leading, i, i.VMIs, m.observe)
}

// observe observes the phases that one update has added: a fast start passes several in one.
func (m *Machines) observe(old, now *kubevirt.VirtualMachineInstance) {
	reached := map[kubevirt.VirtualMachineInstancePhase]bool{}
	for _, t := range old.Status.PhaseTransitionTimestamps {
		reached[t.Phase] = true
	}
	var last *kubevirt.VirtualMachineInstancePhaseTransitionTimestamp
	for n := range now.Status.PhaseTransitionTimestamps {
		t := &now.Status.PhaseTransitionTimestamps[n]
		if !reached[t.Phase] {
			m.observeTransition(now, last, t)
		}
		last = t
	}
}

// observeTransition observes how long an instance took to the phase of t: from the last phase, its creation and its
// deletion.
func (m *Machines) observeTransition(
	vmi *kubevirt.VirtualMachineInstance, last, t *kubevirt.VirtualMachineInstancePhaseTransitionTimestamp,
) {
	after := func(then time.Time) float64 { return max(0, t.PhaseTransitionTimestamp.Sub(then).Seconds()) }
	if last != nil {
		m.steps.WithLabelValues(string(t.Phase), string(last.Phase)).Observe(after(last.PhaseTransitionTimestamp.Time))
	}
	m.fromCreation.WithLabelValues(string(t.Phase)).Observe(after(vmi.CreationTimestamp.Time))
	if at := vmi.DeletionTimestamp; at != nil {
		m.fromDelete.WithLabelValues(string(t.Phase)).Observe(after(at.Time))
	}
}
