package cluster

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// annotationAdoptClaim permits CDI to adopt an existing PVC of the name, such as a restored one.
const annotationAdoptClaim = "cdi.kubevirt.io/allowClaimAdoption"

// CreateDataVolumes makes the DataVolumes that a VM's templates ask for. What is there already is found, and belongs to
// the VM or has no controller. Idempotent: the names are the templates'.
func (a *Activities) CreateDataVolumes(
	ctx context.Context, in contract.CreateDataVolumesInput,
) (contract.CreateDataVolumesResult, error) {
	var out contract.CreateDataVolumesResult
	vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return out, failure("reading VirtualMachine "+in.VM.Name, err)
	case string(vm.UID) != in.VM.UID:
		return out, goneError("VirtualMachine %s is another one by now (UID %s)", in.VM.Name, vm.UID)
	case vm.DeletionTimestamp != nil:
		return out, goneError("VirtualMachine %s is being deleted", in.VM.Name)
	}
	for i := range vm.Spec.DataVolumeTemplates {
		dv, err := a.ensureDataVolume(ctx, vm, &vm.Spec.DataVolumeTemplates[i])
		if err != nil {
			message := message(err)
			a.recordEvent(kindVM, in.VM, warningEvent("FailedDataVolumeCreate",
				fmt.Sprintf("Error creating DataVolume %s: %s", vm.Spec.DataVolumeTemplates[i].Name, message)), message)
			return contract.CreateDataVolumesResult{}, err
		}
		out.DataVolumes = append(out.DataVolumes, dv)
	}
	return out, nil
}

// ensureDataVolume returns the DataVolume of a template, and makes it unless its PVC exists already.
func (a *Activities) ensureDataVolume(
	ctx context.Context, vm *kubevirt.VirtualMachine, template *kubevirt.DataVolumeTemplateSpec,
) (contract.DataVolume, error) {
	var none contract.DataVolume
	dv, err := a.readDataVolume(ctx, vm.Namespace, template.Name)
	if err != nil {
		return none, err
	}
	if dv == nil {
		pvc, err := a.readClaim(ctx, vm.Namespace, template.Name)
		if err != nil {
			return none, err
		}
		if o := observe.Template(template.Name, nil, pvc); o.Populated {
			return o, nil
		}
		dv, err = a.makeDataVolume(ctx, vm, template)
		if err != nil {
			return none, err
		}
	}
	if dv, err = checkOwned(vm, dv); err != nil {
		return none, err
	}
	return observe.DataVolume(dv.Name, dv), nil
}

// makeDataVolume makes the DataVolume of a template. One that exists by then may belong to another owner.
func (a *Activities) makeDataVolume(
	ctx context.Context, vm *kubevirt.VirtualMachine, template *kubevirt.DataVolumeTemplateSpec,
) (*cdi.DataVolume, error) {
	made, err := a.KubeVirt.DataVolumes(vm.Namespace).Create(ctx, newDataVolume(vm, template), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err): // since it was looked for
		found, err := a.KubeVirt.DataVolumes(vm.Namespace).Get(ctx, template.Name, metav1.GetOptions{})
		if err != nil {
			return nil, failure("reading DataVolume "+template.Name, err)
		}
		return found, nil
	case apierrors.IsNotFound(err): // the API is not served, or the namespace is gone; both may change
		return nil, nonRetryable(contract.ErrorForbidden,
			"DataVolume api is not present in cluster. CDI must be installed for DataVolume support.")
	case err != nil:
		return nil, failure("creating DataVolume "+template.Name, err)
	}
	a.recordEvent(kindVM, contract.Object{Namespace: vm.Namespace, Name: vm.Name, UID: string(vm.UID)},
		normalEvent("SuccessfulDataVolumeCreate", "Created DataVolume "+made.Name), string(made.UID))
	return made, nil
}

// checkOwned refuses a DataVolume that another object controls.
func checkOwned(vm *kubevirt.VirtualMachine, found *cdi.DataVolume) (*cdi.DataVolume, error) {
	if by := metav1.GetControllerOf(found); by != nil && by.UID != vm.UID {
		return nil, nonRetryable(contract.ErrorConflict, fmt.Sprintf("DataVolume %s exists (UID %s) and belongs to "+
			"%s %s: delete it, or give the template another name", found.Name, found.UID, by.Kind, by.Name))
	}
	return found, nil
}

// newDataVolume returns the DataVolume that a template asks for, as KubeVirt makes it. It is deleted with its VM.
func newDataVolume(vm *kubevirt.VirtualMachine, template *kubevirt.DataVolumeTemplateSpec) *cdi.DataVolume {
	dv := &cdi.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: cdi.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, Name: template.Name, Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(dv.Labels, template.Labels)
	maps.Copy(dv.Annotations, template.Annotations)
	dv.Labels[contract.LabelCreatedBy] = string(vm.UID)
	dv.Annotations[annotationAdoptClaim] = "true"
	// Its first consumer would be the guest, which waits until it is populated.
	dv.Annotations[contract.AnnotationBindImmediate] = ""
	if dv.Spec.PriorityClassName == "" && vm.Spec.Template != nil {
		dv.Spec.PriorityClassName = vm.Spec.Template.Spec.PriorityClassName
	}
	return dv
}

// readDataVolume reads a DataVolume; nil: it does not exist, or there is no CDI.
func (a *Activities) readDataVolume(ctx context.Context, namespace, name string) (*cdi.DataVolume, error) {
	dv, err := a.KubeVirt.DataVolumes(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // it does not exist
	}
	if err != nil {
		return nil, failure("reading DataVolume "+name, err)
	}
	return dv, nil
}

// recordFailing records, once for each reason, which DataVolume the status of a VM names as impossible to populate.
func (a *Activities) recordFailing(in contract.PatchVMInput) {
	for _, c := range in.Status.Conditions {
		if c.Type == "Failure" && c.Reason == contract.ReasonDataVolumeFailed {
			a.recordEvent(kindVM, in.VM, warningEvent(c.Reason, c.Message), c.Message)
		}
	}
}
