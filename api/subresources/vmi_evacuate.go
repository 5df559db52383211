package subresources

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// cancelEvacuation cancels the evacuation of an instance.
func (s *Service) cancelEvacuation(w http.ResponseWriter, r *Request, vmi *kubevirtv1.VirtualMachineInstance) error {
	var options kubevirtv1.EvacuateCancelOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	if err := s.drained(r.Context(), vmi); err != nil {
		return err
	}
	if vmi.Status.EvacuationNodeName != "" {
		node := options.EvacuationNodeName
		if node == "" {
			// virtctl names none: the instance's own was just read. KubeVirt tests for the empty name, and fails.
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

// drained refuses if the node that an instance leaves, or is on, is drained by a taint: it would have to leave again at
// once.
func (s *Service) drained(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error {
	name := cmp.Or(vmi.Status.EvacuationNodeName, vmi.Status.NodeName)
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	err := s.get(ctx, "", name, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("unable to retrieve node [%s]: %w", name, err))
	}
	cluster, err := s.Cluster(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	drain := corev1.Taint{Key: cluster.DrainTaint(), Effect: corev1.TaintEffectNoSchedule}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&drain) }) {
		return apierrors.NewBadRequest(fmt.Sprintf("Node %q has NodeDrainTaintKey %q", name, drain.ToString()))
	}
	return nil
}
