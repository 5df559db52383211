package machinemetrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// newPartsVM returns a VM with two disks that have PVCs, and two interfaces.
func newPartsVM() *kubevirt.VirtualMachine {
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web",
		CreationTimestamp: metav1.Unix(1000, 0), Labels: map[string]string{"app": "shop", "team": "red"}}}
	vm.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue", "kubevirt.io/size": "small"}}}
	spec := &vm.Spec.Template.Spec
	guest := resource.MustParse("1Gi")
	spec.Domain.Memory = &kubevirt.Memory{Guest: &guest}
	spec.Domain.CPU = &kubevirt.CPU{Cores: 2, Sockets: 2, Model: "host-model"}
	spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"),
		corev1.ResourceMemory: resource.MustParse("2Gi")}
	spec.Domain.Devices.Interfaces = []kubevirt.Interface{
		{Name: "default", Model: "virtio"}, {Name: "default"}, {Name: "second"}, {Name: "none"}}
	spec.Domain.Devices.Interfaces[0].Masquerade = &kubevirt.InterfaceMasquerade{}
	spec.Domain.Devices.Interfaces[2].Bridge = &kubevirt.InterfaceBridge{}
	spec.Networks = []kubevirt.Network{
		{Name: "default", NetworkSource: kubevirt.NetworkSource{Pod: &kubevirt.PodNetwork{}}},
		{Name: "second", NetworkSource: kubevirt.NetworkSource{Multus: &kubevirt.MultusNetwork{NetworkName: "blue"}}}}
	spec.Volumes = []kubevirt.Volume{
		{Name: "root", VolumeSource: kubevirt.VolumeSource{DataVolume: &kubevirt.DataVolumeSource{Name: "root-dv"}}},
		{Name: "data", VolumeSource: kubevirt.VolumeSource{
			PersistentVolumeClaim: &kubevirt.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-pvc"}}}},
		{Name: "missing", VolumeSource: kubevirt.VolumeSource{DataVolume: &kubevirt.DataVolumeSource{Name: "nowhere"}}}}
	vm.Spec.DataVolumeTemplates = []kubevirt.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root-dv"},
		Spec: cdi.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{Resources: sized("5Gi")}}}}
	return vm
}

func sized(size string) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}
}

// TestPartsOfVMs: a stripped VM has what the metrics need. A name that is there twice does not fail the scrape.
//
//nolint:lll // lines of metrics
func TestPartsOfVMs(t *testing.T) {
	i := newTestInformers(t)
	registry := newPartsRegistry(i)
	keep(t, i.VMs.GetStore(), newPartsVM())
	keep(t, i.VMs.GetStore(), &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "bare"}})
	block := corev1.PersistentVolumeBlock
	for name, mode := range map[string]*corev1.PersistentVolumeMode{"root-dv": nil, "data-pvc": &block} {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: mode, Resources: sized("6Gi")}}
		keep(t, i.PVCs.GetStore(), pvc)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_configuration_emulation_enabled 1 while the KubeVirt object has guests run without KVM, otherwise 0.
# TYPE kubevirt_configuration_emulation_enabled gauge
kubevirt_configuration_emulation_enabled 0
# HELP kubevirt_vm_create_date_timestamp_seconds When a VM was created, in seconds since 1970.
# TYPE kubevirt_vm_create_date_timestamp_seconds gauge
kubevirt_vm_create_date_timestamp_seconds{name="web",namespace="a"} 1000
# HELP kubevirt_vm_disk_allocated_size_bytes Sizes that the PVCs of a VM's disks request.
# TYPE kubevirt_vm_disk_allocated_size_bytes gauge
kubevirt_vm_disk_allocated_size_bytes{device="data",name="web",namespace="a",persistentvolumeclaim="data-pvc",volume_mode="Block"} 6442450944
kubevirt_vm_disk_allocated_size_bytes{device="root",name="web",namespace="a",persistentvolumeclaim="root-dv",volume_mode=""} 5368709120
# HELP kubevirt_vm_labels Labels of VMs and of their templates.
# TYPE kubevirt_vm_labels gauge
kubevirt_vm_labels{label_app="shop",label_kubevirt_io_size="small",label_team="blue",name="web",namespace="a"} 1
# HELP kubevirt_vm_resource_limits Limits of CPUs and memory in a VM's template.
# TYPE kubevirt_vm_resource_limits gauge
kubevirt_vm_resource_limits{name="web",namespace="a",resource="cpu",unit="cores"} 1.5
kubevirt_vm_resource_limits{name="web",namespace="a",resource="memory",unit="bytes"} 2147483648
# HELP kubevirt_vm_resource_requests CPUs and memory of a VM's template.
# TYPE kubevirt_vm_resource_requests gauge
kubevirt_vm_resource_requests{name="web",namespace="a",resource="cpu",source="domain",unit="cores"} 2
kubevirt_vm_resource_requests{name="web",namespace="a",resource="cpu",source="domain",unit="sockets"} 2
kubevirt_vm_resource_requests{name="web",namespace="a",resource="cpu",source="guest_effective",unit="cores"} 4
kubevirt_vm_resource_requests{name="web",namespace="a",resource="memory",source="guest",unit="bytes"} 1073741824
kubevirt_vm_resource_requests{name="web",namespace="a",resource="memory",source="guest_effective",unit="bytes"} 1073741824
# HELP kubevirt_vm_vnic_info Network interfaces in a VM's template.
# TYPE kubevirt_vm_vnic_info gauge
kubevirt_vm_vnic_info{binding_name="",binding_type="",model="<none>",name="web",namespace="a",network="pod networking",vnic_name="default"} 1
kubevirt_vm_vnic_info{binding_name="bridge",binding_type="core",model="<none>",name="web",namespace="a",network="blue",vnic_name="second"} 1
kubevirt_vm_vnic_info{binding_name="masquerade",binding_type="core",model="virtio",name="web",namespace="a",network="pod networking",vnic_name="default"} 1
`)))
}

// newPartsRegistry returns the metrics of a leader. The registry is not pedantic: it would want all series of the
// labels of VMs to have the same.
func newPartsRegistry(i *watch.Informers) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewParts(func() *watch.Informers { return i }))
	return registry
}

// TestPartsOfVMIs: an interface of the same name twice does not fail the scrape, and the settings of the cluster count
// for the overhead.
//
//nolint:lll // lines of metrics
func TestPartsOfVMIs(t *testing.T) {
	i := newTestInformers(t)
	registry := newPartsRegistry(i)
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"},
		Spec: newPartsVM().Spec.Template.Spec}
	vmi.Spec.Domain.CPU = nil
	vmi.Spec.Domain.Devices.Interfaces = vmi.Spec.Domain.Devices.Interfaces[:1]
	vmi.Spec.Domain.Resources.Limits = nil
	vmi.Status.NodeName = "n"
	up := kubevirt.VirtualMachineInstanceNetworkInterface{Name: "default", InterfaceName: "eth0", IP: "10.0.0.1"}
	vmi.Status.Interfaces = []kubevirt.VirtualMachineInstanceNetworkInterface{up, up, {Name: "second"}, {}}
	keep(t, i.VMIs.GetStore(), vmi)
	const want = `
# HELP kubevirt_vmi_launcher_memory_overhead_bytes Memory that the launcher of a VMI is estimated to need beside the guest.
# TYPE kubevirt_vmi_launcher_memory_overhead_bytes gauge
kubevirt_vmi_launcher_memory_overhead_bytes{name="web",namespace="a"} %d
# HELP kubevirt_vmi_status_addresses Addresses of a VMI's network interfaces.
# TYPE kubevirt_vmi_status_addresses gauge
kubevirt_vmi_status_addresses{address="",interface_name="",name="web",namespace="a",node="n",type="SystemInterface",vnic_name="second"} 1
kubevirt_vmi_status_addresses{address="10.0.0.1",interface_name="eth0",name="web",namespace="a",node="n",type="ExternalInterface",vnic_name="default"} 1
# HELP kubevirt_vmi_vnic_info Network interfaces of a VMI.
# TYPE kubevirt_vmi_vnic_info gauge
kubevirt_vmi_vnic_info{binding_name="masquerade",binding_type="core",model="virtio",name="web",namespace="a",network="pod networking",vnic_name="default"} 1
`
	names := []string{"kubevirt_vmi_launcher_memory_overhead_bytes", "kubevirt_vmi_status_addresses",
		"kubevirt_vmi_vnic_info"}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(want, 268<<20)), names...))

	ratio := "2"
	kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "kubevirt"}}
	kv.Spec.Configuration.AdditionalGuestMemoryOverheadRatio = &ratio
	kv.Spec.Configuration.DeveloperConfiguration = &kubevirt.DeveloperConfiguration{UseEmulation: true}
	keep(t, i.Settings.GetStore(), kv)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(want, 2*(268+64)<<20)),
		names...))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_configuration_emulation_enabled 1 while the KubeVirt object has guests run without KVM, otherwise 0.
# TYPE kubevirt_configuration_emulation_enabled gauge
kubevirt_configuration_emulation_enabled 1
`), "kubevirt_configuration_emulation_enabled"))
}

// TestRequests has the sources of CPUs and memory, as KubeVirt names them.
func TestRequests(t *testing.T) {
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	for name, c := range map[string]struct {
		domain kubevirt.DomainSpec
		want   []string
	}{
		"nothing": {kubevirt.DomainSpec{}, []string{"cpu cores default 1", "cpu threads default 1",
			"cpu sockets default 1", "cpu cores guest_effective 1"}},
		"requests": {kubevirt.DomainSpec{Resources: kubevirt.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *quantity("2500m"), corev1.ResourceMemory: *quantity("1Ki")}}},
			[]string{"memory bytes domain 1024", "memory bytes guest_effective 1024", "cpu cores requests 2.5",
				"cpu cores guest_effective 1"}},
		"only a limit": {kubevirt.DomainSpec{Resources: kubevirt.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: *quantity("2Ki")}}},
			[]string{"memory bytes guest_effective 2048", "cpu cores default 1", "cpu threads default 1",
				"cpu sockets default 1", "cpu cores guest_effective 1"}},
		"hugepages": {kubevirt.DomainSpec{CPU: &kubevirt.CPU{Threads: 2}, Memory: &kubevirt.Memory{
			Guest: quantity("4Ki"), Hugepages: &kubevirt.Hugepages{PageSize: "2Ki"}}},
			[]string{"memory bytes guest 4096", "memory bytes hugepages 2048", "memory bytes guest_effective 4096",
				"cpu threads domain 2", "cpu cores guest_effective 2"}},
		"pages of no size": {kubevirt.DomainSpec{CPU: &kubevirt.CPU{Cores: 1}, Memory: &kubevirt.Memory{
			Hugepages: &kubevirt.Hugepages{PageSize: "big"}}},
			[]string{"cpu cores domain 1", "cpu cores guest_effective 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var have []string
			for _, r := range requests(&c.domain) {
				have = append(have, fmt.Sprintf("%s %s %s %v", r.resource, r.unit, r.source, r.value))
			}
			require.Equal(t, c.want, have)
		})
	}
}

// TestLimitsTextsOfVMs: users choose labels, and names of networks.
func TestLimitsTextsOfVMs(t *testing.T) {
	stripped := func(vm *kubevirt.VirtualMachine) *kubevirt.VirtualMachine {
		less, err := watch.Strip(vm)
		require.NoError(t, err)
		return less.(*kubevirt.VirtualMachine)
	}
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	require.Empty(t, contract.NameMetricLabels(stripped(vm).Labels, metricLabel))
	for n := range 100 {
		vm.Labels[fmt.Sprintf("k%02d", n)] = "v"
	}
	require.Len(t, contract.NameMetricLabels(stripped(vm).Labels, metricLabel), 32)
	vm.Labels = map[string]string{"a": strings.Repeat("x", 300), "b": strings.Repeat("x", 300), "a.b": "1", "a-b": "2",
		"0": "digit"}
	require.Equal(t, map[string]string{"label_a": strings.Repeat("x", 300), "label_a_b": "2", "label__0": "digit"},
		contract.NameMetricLabels(stripped(vm).Labels, metricLabel))

	long := strings.Repeat("x", 1<<20)
	vm.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Networks = []kubevirt.Network{{Name: long, NetworkSource: kubevirt.NetworkSource{
		Multus: &kubevirt.MultusNetwork{NetworkName: long}}}}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []kubevirt.Interface{{Name: long, Model: long,
		Binding: &kubevirt.PluginBinding{Name: long}}}
	cut := long[:128]
	require.Equal(t, []vnic{{name: cut, bindingType: "plugin", network: cut, binding: cut, model: cut}},
		vnics(&stripped(vm).Spec.Template.Spec))
}

// TestPluginsCountForOverhead: what the KubeVirt object configures for a binding plugin is in the overhead.
//
//nolint:lll // lines of metrics
func TestPluginsCountForOverhead(t *testing.T) {
	i := newTestInformers(t)
	registry := newPartsRegistry(i)
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	vmi.Spec.Domain.Devices.Interfaces = []kubevirt.Interface{{Name: "x", Binding: &kubevirt.PluginBinding{Name: "l2"}}}
	keep(t, i.VMIs.GetStore(), vmi)
	kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "kubevirt"}}
	kv.Spec.Configuration.NetworkConfiguration = &kubevirt.NetworkConfiguration{
		Binding: map[string]kubevirt.InterfaceBindingPlugin{"l2": {
			ComputeResourceOverhead: &kubevirt.ResourceRequirementsWithoutClaims{Requests: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("10Mi")}}}}}
	keep(t, i.Settings.GetStore(), kv)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP kubevirt_vmi_launcher_memory_overhead_bytes Memory that the launcher of a VMI is estimated to need beside the guest.
# TYPE kubevirt_vmi_launcher_memory_overhead_bytes gauge
kubevirt_vmi_launcher_memory_overhead_bytes{name="web",namespace="a"} %d
`, (268+10)<<20)), "kubevirt_vmi_launcher_memory_overhead_bytes"))
}
