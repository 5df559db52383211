package subresources

import (
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// The following is not supported yet. Each request is refused as KubeVirt refuses it where KubeVirt does, and otherwise
// with a sentence about what is missing; no request is accepted without effect.

const noHotplug = "Volumes cannot be plugged into or out of a running virtual machine yet. Stop it, change " +
	"spec.template.spec, and start it."

func (s *Service) addVolumeVM(_ http.ResponseWriter, r *Request) error {
	return s.addVolume(r, func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
		return s.templateOf(r)
	})
}

func (s *Service) addVolumeVMI(_ http.ResponseWriter, r *Request) error {
	return s.addVolume(r, func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
		return s.specOf(r)
	})
}

func (s *Service) removeVolumeVM(_ http.ResponseWriter, r *Request) error {
	return s.removeVolume(r, func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
		return s.templateOf(r)
	})
}

func (s *Service) removeVolumeVMI(_ http.ResponseWriter, r *Request) error {
	return s.removeVolume(r, func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
		return s.specOf(r)
	})
}

// templateOf returns the template of a VM's instances, and a function for errors about its conflict with a request.
func (s *Service) templateOf(r *Request) (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
	vm, err := s.VM(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return nil, nil, err
	}
	spec := &kubevirtv1.VirtualMachineInstanceSpec{}
	if vm.Spec.Template != nil {
		spec = &vm.Spec.Template.Spec
	}
	return spec, func(why string) error { return VMConflict(r.Name, why) }, nil
}

// specOf returns the same for an instance, which must run.
func (s *Service) specOf(r *Request) (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error) {
	vmi, err := s.VMI(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range vmi.OwnerReferences {
		if o.Controller != nil && *o.Controller && o.Kind == "VirtualMachine" {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("VMI %s/%s is owned by a VM", vmi.Namespace, vmi.Name))
		}
	}
	if vmi.Status.Phase != kubevirtv1.Running {
		return nil, nil, VMIConflict(r.Name, "VMI is not running")
	}
	return &vmi.Spec, func(why string) error { return VMIConflict(r.Name, why) }, nil
}

func (s *Service) addVolume(
	r *Request, about func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error),
) error {
	var o kubevirtv1.AddVolumeOptions
	if err := decode(r, &o); err != nil {
		return err
	}
	switch {
	case o.Name == "":
		return apierrors.NewBadRequest("AddVolumeOptions requires name to be set")
	case o.Disk == nil:
		return apierrors.NewBadRequest("AddVolumeOptions requires disk to not be nil")
	case o.VolumeSource == nil:
		return apierrors.NewBadRequest("AddVolumeOptions requires VolumeSource to not be nil")
	}
	spec, conflict, err := about()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == o.Name }) {
		return conflict(fmt.Sprintf("Unable to add volume [%s] because volume with that name already exists", o.Name))
	}
	return NotYet(noHotplug)
}

func (s *Service) removeVolume(
	r *Request, about func() (*kubevirtv1.VirtualMachineInstanceSpec, func(string) error, error),
) error {
	var o kubevirtv1.RemoveVolumeOptions
	if err := decode(r, &o); err != nil {
		return err
	}
	if o.Name == "" {
		return apierrors.NewBadRequest("RemoveVolumeOptions requires name to be set")
	}
	spec, conflict, err := about()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == o.Name })
	switch {
	case i < 0:
		return conflict(fmt.Sprintf("Unable to remove volume [%s] because it does not exist", o.Name))
	case !isHotpluggable(spec.Volumes[i]):
		return conflict(fmt.Sprintf("Unable to remove volume [%s] because it is not hotpluggable", o.Name))
	}
	return NotYet(noHotplug)
}

func isHotpluggable(v kubevirtv1.Volume) bool {
	return v.DataVolume != nil && v.DataVolume.Hotpluggable || v.PersistentVolumeClaim != nil &&
		v.PersistentVolumeClaim.Hotpluggable
}

func (s *Service) memoryDump(_ http.ResponseWriter, r *Request) error {
	var o kubevirtv1.VirtualMachineMemoryDumpRequest
	if err := decode(r, &o); err != nil {
		return err
	}
	vm, vmi, err := s.vmAndInstance(r)
	if err != nil {
		return err
	}
	waits := vm.Status.MemoryDumpRequest
	switch {
	case o.ClaimName == "" && waits == nil:
		return apierrors.NewBadRequest("Memory dump requires claim name to be set")
	case o.ClaimName != "" && waits != nil && waits.ClaimName != o.ClaimName:
		return VMConflict(vm.Name,
			fmt.Sprintf("can't request memory dump for pvc [%s] while pvc [%s] is still associated as the memory "+
				"dump pvc", o.ClaimName, waits.ClaimName))
	case vmi == nil:
		return VMINotFound(vm.Name)
	case vmi.Status.Phase != kubevirtv1.Running:
		return VMConflict(vm.Name, "VMI is not running")
	}
	return NotYet("Memory dumps are not supported yet.")
}

func (s *Service) removeMemoryDump(_ http.ResponseWriter, r *Request) error {
	vm, err := s.VM(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	switch waits := vm.Status.MemoryDumpRequest; {
	case waits == nil:
		return VMConflict(vm.Name,
			fmt.Sprintf("can't remove memory dump association for vm %s, no association found", vm.Name))
	case waits.Remove:
		return VMConflict(vm.Name,
			fmt.Sprintf("memory dump remove request for pvc [%s] already exists", waits.ClaimName))
	}
	return NotYet("Memory dumps are not supported yet.")
}

func (s *Service) objectGraphVM(_ http.ResponseWriter, r *Request) error {
	if _, err := s.VM(r.Context(), r.Namespace, r.Name); err != nil {
		return err
	}
	return errNoObjectGraph
}

func (s *Service) objectGraphVMI(_ http.ResponseWriter, r *Request) error {
	if _, err := s.VMI(r.Context(), r.Namespace, r.Name); err != nil {
		return err
	}
	return errNoObjectGraph
}

var errNoObjectGraph = apierrors.NewBadRequest(
	"ObjectGraph feature gate not enabled: virtflow does not have that feature yet.")

// sevRead refuses as KubeVirt does: no VMI can request attestation yet.
func (s *Service) sevRead(_ http.ResponseWriter, r *Request) error {
	if _, err := s.VMI(r.Context(), r.Namespace, r.Name); err != nil {
		return AsPlain(err)
	}
	return AsPlain(VMIConflict(r.Name, "Attestation not requested for VMI"))
}

func (s *Service) sevSetup(_ http.ResponseWriter, r *Request) error {
	var o kubevirtv1.SEVSessionOptions
	if err := decode(r, &o); err != nil {
		return err
	}
	switch {
	case o.Session == "":
		return apierrors.NewBadRequest("Session blob is required")
	case o.DHCert == "":
		return apierrors.NewBadRequest("DH cert is required")
	}
	return s.notAttested(r)
}

func (s *Service) sevInject(_ http.ResponseWriter, r *Request) error {
	var o kubevirtv1.SEVSecretOptions
	if err := decode(r, &o); err != nil {
		return err
	}
	switch {
	case o.Header == "":
		return apierrors.NewBadRequest("Header blob is required")
	case o.Secret == "":
		return apierrors.NewBadRequest("Secret blob is required")
	}
	return s.notAttested(r)
}

func (s *Service) notAttested(r *Request) error {
	if _, err := s.VMI(r.Context(), r.Namespace, r.Name); err != nil {
		return err
	}
	return VMIConflict(r.Name, "Attestation not requested for VMI")
}

func (s *Service) backup(_ http.ResponseWriter, r *Request) error {
	vmi, err := s.VMI(r.Context(), r.Namespace, r.Name)
	switch {
	case err != nil:
		return err
	case vmi.Status.Phase != kubevirtv1.Running:
		return VMIConflict(r.Name, "VM is not running")
	}
	return errNotTracked(r)
}

func (s *Service) redefineCheckpoint(_ http.ResponseWriter, r *Request) error {
	if _, err := s.VMI(r.Context(), r.Namespace, r.Name); err != nil {
		return err
	}
	return errNotTracked(r)
}

// errNotTracked returns KubeVirt's error: incremental backups need changed block tracking, which no VMI can request
// yet.
func errNotTracked(r *Request) error {
	return VMIConflict(r.Name, "ChangedBlockTracking is not enabled")
}
