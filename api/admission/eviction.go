package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

const (
	appLabel       = kubevirtv1.AppLabel
	launcherApp    = "virt-launcher"
	descheduler    = "sigs.k8s.io/descheduler"
	askedBy        = "requested-by"
	fromScheduler  = "descheduler"
	evictionSource = kubevirtv1.EvictionSourceAnnotation
)

// validateEviction refuses the eviction of a launcher pod whose guest must leave the node by a migration, and marks the
// instance for it. It permits the eviction of other pods, and of guests that may be shut down.
func (h *handler) validateEviction(ctx context.Context, req admission.Request) admission.Response {
	pod, err := h.getPod(ctx, req.Namespace, req.Name)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Allowed("")
	case err != nil: // it may be that of a guest which is to be moved
		return tooMany("virtflow failed getting the pod: %v", err)
	}
	if pod.Labels[appLabel] != launcherApp || pod.Status.Phase == corev1.PodFailed ||
		pod.Status.Phase == corev1.PodSucceeded {
		return admission.Allowed("")
	}
	name, ok := pod.Annotations[contract.AnnotationDomain]
	if !ok {
		return admission.Allowed("")
	}
	vmi, err := h.getInstance(ctx, req.Namespace, name)
	if err != nil {
		return tooMany("kubevirt failed getting the vmi: %v", err)
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	leave, problem := leavesByMigration(vmi, cluster)
	switch {
	case problem != "":
		return tooMany("%s", problem)
	case !leave:
		return admission.Allowed("")
	case vmi.Status.EvacuationNodeName != "" && vmi.Status.EvacuationNodeName == vmi.Status.NodeName:
		return tooMany("Evacuation in progress: Eviction triggered evacuation of VMI \"%s/%s\"", vmi.Namespace,
			vmi.Name)
	case vmi.Status.NodeName != pod.Spec.NodeName:
		return tooMany("Eviction request for target Pod")
	}
	eviction := &policyv1.Eviction{}
	if err := json.Unmarshal(req.Object.Raw, eviction); err != nil {
		return tooMany("failed to parse the eviction object: %v", err)
	}
	if err := h.evacuate(ctx, vmi, pod.Spec.NodeName, eviction, isDryRun(req, eviction)); err != nil {
		return tooMany("kubevirt failed marking the vmi for eviction: %v", err)
	}
	return tooMany("Eviction triggered evacuation of VMI \"%s/%s\"", vmi.Namespace, vmi.Name)
}

// leavesByMigration reports whether a guest leaves its node by a migration when its pod is to be evicted. A problem
// means that it can neither migrate nor be evicted.
func leavesByMigration(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) (leave bool, problem string) {
	strategy := cluster.EvictionStrategy()
	if vmi.Spec.EvictionStrategy != nil {
		strategy = *vmi.Spec.EvictionStrategy
	}
	switch strategy {
	case kubevirtv1.EvictionStrategyLiveMigrate:
		if !vmi.IsMigratable() {
			return false, fmt.Sprintf("VMI %s is configured with an eviction strategy but is not live-migratable",
				vmi.Name)
		}
		return true, ""
	case kubevirtv1.EvictionStrategyLiveMigrateIfPossible:
		return vmi.IsMigratable(), ""
	case kubevirtv1.EvictionStrategyExternal:
		return true, ""
	default:
		return false, ""
	}
}

// evacuate marks an instance, so that its migration begins.
func (h *handler) evacuate(
	ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, node string, eviction *policyv1.Eviction, dry bool,
) error {
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// The patch excludes another instance of the same name, and one that has left the node meanwhile. A mark of another
	// node is older than the last move, and is replaced.
	ops := []op{{"test", "/metadata/uid", vmi.UID}, {"test", "/status/nodeName", node},
		{"add", "/status/evacuationNodeName", node}}
	if eviction.Annotations[askedBy] == descheduler {
		if len(vmi.Annotations) == 0 {
			ops = append(ops, op{"add", "/metadata/annotations", map[string]string{evictionSource: fromScheduler}})
		} else {
			ops = append(ops, op{"add",
				"/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").
					Replace(evictionSource), fromScheduler})
		}
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	var options []client.PatchOption
	if dry {
		options = append(options, client.DryRunAll)
	}
	return h.Writer.Patch(ctx, vmi, client.RawPatch(types.JSONPatchType, patch), options...)
}

func isDryRun(req admission.Request, eviction *policyv1.Eviction) bool {
	if req.DryRun != nil && *req.DryRun {
		return true
	}
	o := eviction.DeleteOptions
	return o != nil && len(o.DryRun) > 0 && o.DryRun[0] == metav1.DryRunAll
}

// tooMany returns the answer that makes a draining client try the eviction again.
func tooMany(format string, args ...any) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Message: fmt.Sprintf(format, args...), Code: http.StatusTooManyRequests},
	}}
}
