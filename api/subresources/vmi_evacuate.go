package subresources

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (s *Service) cancelEvacuationVM(w http.ResponseWriter, r *Request) error {
	vmi, err := s.InstanceOf(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	return s.cancelEvacuation(w, r, vmi)
}

func (s *Service) cancelEvacuationVMI(w http.ResponseWriter, r *Request) error {
	vmi, err := s.VMI(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	return s.cancelEvacuation(w, r, vmi)
}

// cancelEvacuation takes back that an instance is to leave its node.
func (s *Service) cancelEvacuation(w http.ResponseWriter, r *Request, vmi *kubevirtv1.VirtualMachineInstance) error {
	var options kubevirtv1.EvacuateCancelOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	if vmi.Status.EvacuationNodeName != "" {
		node := options.EvacuationNodeName
		if node == "" {
			// virtctl names none: it is the one that was just read. KubeVirt tests for the empty name, and fails.
			node = vmi.Status.EvacuationNodeName
		}
		const path = "/status/evacuationNodeName"
		patch, err := rawPatch([]step{{"test", path, node}, {Op: "remove", Path: path}})
		if err != nil {
			return err
		}
		var o []client.PatchOption
		if dry {
			o = append(o, client.DryRunAll)
		}
		ctx, cancel := context.WithTimeout(r.Context(), clusterTimeout)
		defer cancel()
		object := &kubevirtv1.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name}}
		if err := vmiWritten(vmi.Name, s.Client.Patch(ctx, object, patch, o...)); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
