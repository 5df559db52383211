package machinemetrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/bindings"
	"github.com/virtflow/virtflow/internal/hardware"
)

// Parts has KubeVirt's metrics of the parts of VMs and VMIs: CPUs, memory, disks, interfaces, labels and addresses. It
// computes them from the leader's informers.
type Parts struct {
	leading Leader

	created, requests, limits, disks, interfaces, labels *prometheus.Desc // of VMs
	instanceInterfaces, addresses, overhead              *prometheus.Desc // of VMIs
	emulation                                            *prometheus.Desc
}

// labelsHelp is the same for the series of all VMs, whose labels differ.
const (
	labelsName = "kubevirt_vm_labels"
	labelsHelp = "Labels of VMs and of their templates."
)

// NewParts returns the metrics of the parts of the leader's VMs and VMIs.
func NewParts(leading Leader) *Parts {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	vnic := []string{"name", "namespace", "vnic_name", "binding_type", "network", "binding_name", "model"}
	return &Parts{
		leading: leading,
		created: desc("kubevirt_vm_create_date_timestamp_seconds", "When a VM was created, in seconds since 1970.",
			"name", "namespace"),
		requests: desc("kubevirt_vm_resource_requests", "CPUs and memory of a VM's template.", "name", "namespace",
			"resource", "unit", "source"),
		limits: desc("kubevirt_vm_resource_limits", "Limits of CPUs and memory in a VM's template.", "name",
			"namespace", "resource", "unit"),
		disks: desc("kubevirt_vm_disk_allocated_size_bytes", "Sizes that the PVCs of a VM's disks request.", "name",
			"namespace", "persistentvolumeclaim", "volume_mode", "device"),
		interfaces:         desc("kubevirt_vm_vnic_info", "Network interfaces in a VM's template.", vnic...),
		labels:             desc(labelsName, labelsHelp, "name", "namespace"),
		instanceInterfaces: desc("kubevirt_vmi_vnic_info", "Network interfaces of a VMI.", vnic...),
		addresses: desc("kubevirt_vmi_status_addresses", "Addresses of a VMI's network interfaces.", "node",
			"namespace", "name", "vnic_name", "interface_name", "address", "type"),
		overhead: desc("kubevirt_vmi_launcher_memory_overhead_bytes",
			"Memory that the launcher of a VMI is estimated to need beside the guest.", "namespace", "name"),
		emulation: desc("kubevirt_configuration_emulation_enabled",
			"1 while the KubeVirt object has guests run without KVM, otherwise 0."),
	}
}

// Describe implements prometheus.Collector. The labels of VMs are not among the labels.
func (p *Parts) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.created, p.requests, p.limits, p.disks, p.interfaces, p.labels,
		p.instanceInterfaces, p.addresses, p.overhead, p.emulation} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Parts) Collect(out chan<- prometheus.Metric) {
	i := p.leading()
	if i == nil {
		return
	}
	configured := i.Configuration()
	plugins := bindings.From(&configured.Configuration)
	s := series{out: out, sent: map[sample]bool{}}
	s.gauge(p.emulation, number(configured.UseEmulation))
	for _, vm := range watch.List[*kubevirt.VirtualMachine](i.VMs) {
		clear(s.sent)
		p.collectVM(i, &s, vm)
	}
	for _, vmi := range watch.List[*kubevirt.VirtualMachineInstance](i.VMIs) {
		clear(s.sent)
		for _, nic := range vnics(&vmi.Spec) {
			s.gauge(p.instanceInterfaces, 1, append([]string{vmi.Name, vmi.Namespace}, nic.labels()...)...)
		}
		for _, a := range addresses(vmi.Status.Interfaces) {
			s.gauge(p.addresses, 1, vmi.Status.NodeName, vmi.Namespace, vmi.Name, a.vnic, a.device, a.address, a.kind)
		}
		if base, err := strconv.ParseInt(vmi.Annotations[watch.AnnotationOverhead], 10, 64); err == nil {
			all := hardware.ClusterOverhead(base, configured.UseEmulation, configured.OverheadRatio) +
				plugins.Memory(vmi.Spec.Domain.Devices.Interfaces)
			s.gauge(p.overhead, float64(all), vmi.Namespace, vmi.Name)
		}
	}
}

// collectVM sends the metrics of one VM.
func (p *Parts) collectVM(i *watch.Informers, s *series, vm *kubevirt.VirtualMachine) {
	if !vm.CreationTimestamp.IsZero() {
		s.gauge(p.created, float64(vm.CreationTimestamp.Unix()), vm.Name, vm.Namespace)
	}
	if labels := contract.NameMetricLabels(vm.Labels, metricLabel); len(labels) > 0 {
		s.gauge(prometheus.NewDesc(labelsName, labelsHelp, []string{"name", "namespace"}, labels), 1, vm.Name,
			vm.Namespace)
	}
	if vm.Spec.Template == nil {
		return
	}
	spec := &vm.Spec.Template.Spec
	for _, r := range requests(&spec.Domain) {
		s.gauge(p.requests, r.value, vm.Name, vm.Namespace, r.resource, r.unit, r.source)
	}
	for _, r := range limits(&spec.Domain) {
		s.gauge(p.limits, r.value, vm.Name, vm.Namespace, r.resource, r.unit)
	}
	for _, nic := range vnics(spec) {
		s.gauge(p.interfaces, 1, append([]string{vm.Name, vm.Namespace}, nic.labels()...)...)
	}
	pvc := func(name string) *corev1.PersistentVolumeClaim {
		found, _ := watch.Get[*corev1.PersistentVolumeClaim](i.PVCs, vm.Namespace+"/"+name)
		return found
	}
	for _, d := range disks(vm, pvc) {
		s.gauge(p.disks, d.size, vm.Name, vm.Namespace, d.pvc, d.mode, d.device)
	}
}

// series sends metrics of one object, each once: two with the same labels would fail the whole scrape, and nothing but
// the webhooks makes names of disks and interfaces unique.
type series struct {
	out  chan<- prometheus.Metric
	sent map[sample]bool
}

// sample has what makes a series one of its own.
type sample struct {
	desc   *prometheus.Desc
	labels string
}

func (s *series) gauge(d *prometheus.Desc, value float64, labels ...string) {
	key := sample{d, strings.Join(labels, "\x00")}
	if s.sent[key] {
		return
	}
	s.sent[key] = true
	if m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...); err == nil {
		s.out <- m
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
