package subresources

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/contract"
)

// migrateVM makes a VirtualMachineInstanceMigration of a VM's instance. The admission of the new object decides whether
// it may migrate.
func (s *Service) migrateVM(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.MigrateOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	vm, vmi, err := s.vmAndInstance(r)
	if err != nil {
		return err
	}
	switch {
	case vmi == nil || !isOwnedBy(vmi, vm):
		return VMINotFound(vm.Name)
	case vmi.Status.Phase != kubevirtv1.Running:
		return VMConflict(vm.Name, "VM is not running")
	}
	migration := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, GenerateName: "kubevirt-migrate-vm-",
			Annotations: map[string]string{contract.AnnotationRequestedBy: r.User.Name},
		},
		Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{
			VMIName: vm.Name, AddedNodeSelector: options.AddedNodeSelector},
	}
	var o []client.CreateOption
	if dry {
		o = append(o, client.DryRunAll)
	}
	ctx, cancel := context.WithTimeout(r.Context(), clusterTimeout)
	defer cancel()
	if err := s.Client.Create(ctx, migration, o...); err != nil {
		return apierrors.NewInternalError(err)
	}
	return accept(w, nil)
}
