package instance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/settings"
)

// Request has what the transition that makes an instance asks for.
type Request struct {
	// Paused makes the guest start paused.
	Paused bool
	// Actor is the user behind it, "" when not known.
	Actor string
	// Transition is the workflow ID of the start or restart that makes it, "" where there is none.
	Transition string
	// Now goes into the status.
	Now time.Time
}

// RevisionName returns the name of the ControllerRevision that keeps the specification a VM was started with.
func RevisionName(vmUID string, generation int64) string {
	return fmt.Sprintf("%s%s-%d", contract.RevisionPrefix, vmUID, generation)
}

// New makes the instance of a VM.
func New(vm *kubevirt.VirtualMachine, s settings.Settings, r Request) (*kubevirt.VirtualMachineInstance, error) {
	if vm.Spec.Template == nil {
		return nil, fmt.Errorf("spec.template of VirtualMachine %s/%s is missing", vm.Namespace, vm.Name)
	}
	template := vm.Spec.Template.DeepCopy()
	vmi := &kubevirt.VirtualMachineInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubevirt.GroupVersion.String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: template.ObjectMeta,
		Spec:       template.Spec,
	}
	vmi.Name, vmi.Namespace, vmi.GenerateName = vm.Name, vm.Namespace, ""
	vmi.UID, vmi.ResourceVersion, vmi.CreationTimestamp, vmi.ManagedFields = "", "", metav1.Time{}, nil
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)}
	if !slices.Contains(vmi.Finalizers, contract.FinalizerVM) {
		vmi.Finalizers = append(vmi.Finalizers, contract.FinalizerVM)
	}
	vmi.Annotations = maps.Clone(vmi.Annotations)
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[contract.AnnotationVMGeneration] = strconv.FormatInt(vm.Generation, 10)
	// What a template says about who asked, and who made it, is not to be believed.
	delete(vmi.Annotations, contract.AnnotationRequestedBy)
	if r.Actor != "" {
		vmi.Annotations[contract.AnnotationRequestedBy] = r.Actor
	}
	delete(vmi.Annotations, contract.AnnotationTransition)
	if r.Transition != "" {
		vmi.Annotations[contract.AnnotationTransition] = r.Transition
	}
	if r.Paused {
		paused := kubevirt.StartStrategyPaused
		vmi.Spec.StartStrategy = &paused
	}
	return vmi, complete(vmi, s, RevisionName(string(vm.UID), vm.Generation), r.Now)
}

// complete fills in what the webhook does for an instance that a user makes: virtflow writes the object past it. An
// instance that virtflow makes has its first condition and its revision, too, which saves a write.
func complete(vmi *kubevirt.VirtualMachineInstance, s settings.Settings, revision string, at time.Time) error {
	vmi.Status = kubevirt.VirtualMachineInstanceStatus{}
	at = at.UTC().Truncate(time.Second)
	if err := defaults.CreateVMI(vmi, s.Cluster, at); err != nil {
		return fmt.Errorf("filling in the instance: %w", err)
	}
	vmi.Status.VirtualMachineRevisionName = revision
	vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{{
		Type:               kubevirt.VirtualMachineInstanceReady,
		Status:             corev1.ConditionFalse,
		Reason:             kubevirt.PodNotExistsReason,
		Message:            "virt-launcher pod has not yet been scheduled",
		LastTransitionTime: metav1.NewTime(at),
	}}
	return nil
}

// Revision keeps the specification that a VM is being started with. Its data cannot be changed, and are written as the
// API server itself writes JSON, with sorted keys: else each patch of the revision, even of its owner by the garbage
// collector, would count as such a change.
func Revision(vm *kubevirt.VirtualMachine) (*appsv1.ControllerRevision, error) {
	data, err := sorted(map[string]any{"spec": vm.Spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the specification of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:      RevisionName(string(vm.UID), vm.Generation),
			Namespace: vm.Namespace,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)},
		},
		Data:     k8sruntime.RawExtension{Raw: data},
		Revision: vm.Generation,
	}, nil
}

// sorted returns a value as JSON with the keys of every object in order.
func sorted(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// Architecture returns the architecture of an instance; those without one run on the control plane's own, as in a
// cluster of one kind.
func Architecture(spec *kubevirt.VirtualMachineInstanceSpec) string {
	if spec.Architecture != "" {
		return spec.Architecture
	}
	return runtime.GOARCH
}
