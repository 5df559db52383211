package validation

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// DeprecatedRunning is the warning for a VM that uses spec.running.
const DeprecatedRunning = "spec.running is deprecated, please use spec.runStrategy instead."

// machineRule is a rule for a VM.
type machineRule struct {
	name  string
	apply func(machineSubject) []metav1.StatusCause
}

// machineSubject is a VM whose template's spec has been filled in as its VMI's would be. Own is true if virtflow itself
// writes it.
type machineSubject struct {
	vm       *kubevirtv1.VirtualMachine
	expanded *kubevirtv1.VirtualMachineInstanceSpec
	cluster  defaults.Cluster
	own      bool
}

func machineRules() []machineRule {
	return []machineRule{
		{"template's metadata", templateMetadata},
		{"template's spec", templateSpec},
		{"data volume templates", dataVolumeTemplates},
		{"run strategy", runStrategy},
		{"hotplug limits", hotplugLimits},
	}
}

// VM applies KubeVirt's rules for a VirtualMachine whose template's spec has been filled in (expanded), as its VMI's
// would be.
func VM(
	vm *kubevirtv1.VirtualMachine, expanded *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster, own bool,
) []metav1.StatusCause {
	if vm.Spec.Template == nil {
		return required(field.NewPath("spec", "template"), "missing virtual machine template.")
	}
	s := machineSubject{vm: vm, expanded: expanded, cluster: cluster, own: own}
	var causes []metav1.StatusCause
	for _, r := range machineRules() {
		causes = append(causes, r.apply(s)...)
	}
	return causes
}

func specPath() *field.Path { return field.NewPath("spec") }

// TemplatePath is the path of a template's spec.
func TemplatePath() *field.Path { return field.NewPath("spec", "template", "spec") }

func templateMetadata(s machineSubject) []metav1.StatusCause {
	return metadata(field.NewPath("spec", "template", "metadata"), &s.vm.Spec.Template.ObjectMeta, s.cluster, s.own)
}

func templateSpec(s machineSubject) []metav1.StatusCause {
	return Spec(TemplatePath(), s.expanded, s.cluster)
}

// Discontinued returns causes for bindings that KubeVirt has removed. They are reported alone, only when a VM is
// created, and at the paths of a VMI.
func Discontinued(spec *kubevirtv1.VirtualMachineInstanceSpec) []metav1.StatusCause {
	s := subject{spec: spec, path: specPath()}
	var causes []metav1.StatusCause
	for i, f := range spec.Domain.Devices.Interfaces {
		for _, old := range []struct {
			set           bool
			name, message string
		}{
			{f.DeprecatedSlirp != nil, "slirp", "Slirp interface support has been discontinued since v1.3"},
			{f.DeprecatedPasst != nil, "passt", "Passt network binding has been discontinued since v1.3"},
			{f.DeprecatedMacvtap != nil, "macvtap", "Macvtap network binding has been discontinued since v1.3"},
		} {
			if old.set {
				causes = append(causes, invalid(s.iface(i).Child(old.name), "%s", old.message)...)
			}
		}
	}
	return causes
}

func runStrategy(m machineSubject) []metav1.StatusCause {
	s, spec := &m.vm.Spec, specPath()
	var causes []metav1.StatusCause
	if s.Running != nil && s.RunStrategy != nil {
		causes = invalid(spec.Child("running"),
			"Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use "+
				"RunStrategy instead")
	}
	if s.Running == nil && s.RunStrategy == nil {
		causes = invalid(spec.Child("running"), "RunStrategy must be specified")
	}
	if s.RunStrategy == nil {
		return causes
	}
	switch *s.RunStrategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual,
		kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		return causes
	case kubevirtv1.RunStrategyWaitAsReceiver:
		if m.cluster.Enabled(defaults.GateDecentralizedLive) {
			return causes
		}
		return append(causes, invalid(spec.Child("runStrategy"),
			"Invalid RunStrategy (%s), %s feature gate is not enabled in kubevirt resource",
			*s.RunStrategy, defaults.GateDecentralizedLive)...)
	default:
		return append(causes, invalid(spec.Child("runStrategy"), "Invalid RunStrategy (%s)", *s.RunStrategy)...)
	}
}

// hotplugLimits: CPUs and memory must be of a kind that can be hot-plugged.
func hotplugLimits(m machineSubject) []metav1.StatusCause {
	if !m.cluster.LiveUpdate() {
		return nil
	}
	s := subject{spec: m.expanded, path: TemplatePath(), cluster: m.cluster}
	causes := sockets(s)
	if mem := m.expanded.Domain.Memory; mem != nil && mem.MaxGuest != nil {
		if err := defaults.MemoryCanGrow(m.expanded, mem.MaxGuest); err != nil {
			causes = append(causes, invalid(s.domain("memory", "guest"), "%s", err)...)
		}
	}
	return causes
}

// dataVolumeTemplates: each is complete, and its volume is used.
func dataVolumeTemplates(m machineSubject) []metav1.StatusCause {
	used := map[string]bool{}
	for _, v := range m.expanded.Volumes {
		if v.PersistentVolumeClaim != nil {
			used[v.PersistentVolumeClaim.ClaimName] = true
		}
		if v.DataVolume != nil {
			used[v.DataVolume.Name] = true
		}
	}
	var causes []metav1.StatusCause
	for i := range m.vm.Spec.DataVolumeTemplates {
		t := &m.vm.Spec.DataVolumeTemplates[i]
		p := specPath().Child("dataVolumeTemplate").Index(i)
		if found := dataVolumeTemplate(p, t); len(found) > 0 {
			causes = append(causes, found...)
			continue
		}
		if !used[t.Name] {
			causes = append(causes, required(p,
				"DataVolumeTemplate entry %s must be referenced in the VMI template's 'volumes' list", p)...)
		}
	}
	return causes
}

func dataVolumeTemplate(p *field.Path, t *kubevirtv1.DataVolumeTemplateSpec) []metav1.StatusCause {
	s := &t.Spec
	populated := false
	switch {
	case t.Name == "":
		return required(p.Child("name"), "'name' field must not be empty for DataVolumeTemplate entry %s.",
			p.Child("name"))
	case s.PVC == nil && s.Storage == nil:
		return invalid(p.Child("PVC", "Storage"), "Missing Data volume PVC or Storage")
	case s.PVC != nil && s.Storage != nil:
		return invalid(p.Child("PVC", "Storage"),
			"Duplicate storage definition, both target storage and target pvc defined")
	case s.PVC != nil:
		populated = externally(s.PVC.DataSource, s.PVC.DataSourceRef)
	default:
		populated = externally(s.Storage.DataSource, s.Storage.DataSourceRef)
	}
	sourced := s.Source != nil || s.SourceRef != nil
	switch {
	case populated && sourced:
		return invalid(p.Child("source"), "External population is incompatible with Source and SourceRef")
	case !populated && !sourced:
		return invalid(p.Child("source", "sourceRef"),
			"Data volume should have either Source, SourceRef, or be externally populated")
	case s.Source == nil:
		return nil
	default:
		return oneDataVolumeSource(p.Child("source"), s.Source)
	}
}

func externally(source *corev1.TypedLocalObjectReference, ref *corev1.TypedObjectReference) bool {
	return source != nil || ref != nil
}

func oneDataVolumeSource(p *field.Path, source *cdiv1.DataVolumeSource) []metav1.StatusCause {
	n := 0
	// Every field is one kind of source.
	v := reflect.ValueOf(*source)
	for f := range v.NumField() {
		if !v.Field(f).IsNil() {
			n++
		}
	}
	switch n {
	case 1:
		return nil
	case 0:
		return invalid(p, "Missing dataVolume valid source")
	default:
		return invalid(p, "Multiple dataVolume sources")
	}
}

// DataVolumeNamespaces: data volumes are made in the VM's namespace. Old is nil when the VM is created; existing ones
// may stay.
func DataVolumeNamespaces(vm, old *kubevirtv1.VirtualMachine, namespace string) []metav1.StatusCause {
	if old != nil && equality.Semantic.DeepEqual(old.Spec.DataVolumeTemplates, vm.Spec.DataVolumeTemplates) {
		return nil
	}
	if vm.Namespace != "" {
		namespace = vm.Namespace
	}
	var causes []metav1.StatusCause
	for i, t := range vm.Spec.DataVolumeTemplates {
		if t.Namespace != "" && t.Namespace != namespace {
			causes = append(causes, invalid(specPath().Child("dataVolumeTemplates").Index(i),
				"Embedded DataVolume namespace %s differs from VM namespace %s", t.Namespace, namespace)...)
		}
	}
	return causes
}

// Busy refuses changes of a VM while a snapshot of it is taken, or one is restored.
func Busy(vm, old *kubevirtv1.VirtualMachine) []metav1.StatusCause {
	if vm.Spec.Template == nil || old.Spec.Template == nil {
		return nil
	}
	if name := vm.Status.SnapshotInProgress; name != nil {
		if !equality.Semantic.DeepEqual(old.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Volumes) {
			return unsupported(specPath(), "Cannot update vm disks or volumes until snapshot %q completes", *name)
		}
		if !sameStrategy(&old.Spec, &vm.Spec) {
			return unsupported(specPath(), "Cannot update vm running state until snapshot %q completes", *name)
		}
	}
	if name := vm.Status.RestoreInProgress; name != nil {
		before, _ := old.RunStrategy()
		after, _ := vm.RunStrategy()
		if before != after {
			return unsupported(specPath(), "Cannot update VM runStrategy until restore %q completes", *name)
		}
	}
	return nil
}

func sameStrategy(a, b *kubevirtv1.VirtualMachineSpec) bool {
	switch {
	case a.Running != nil && b.Running != nil:
		return *a.Running == *b.Running
	case a.RunStrategy != nil && b.RunStrategy != nil:
		return *a.RunStrategy == *b.RunStrategy
	default:
		return false
	}
}
