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

	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	appLabel       = kubevirtv1.AppLabel
	launcherApp    = "virt-launcher"
	descheduler    = "sigs.k8s.io/descheduler"
	askedBy        = "requested-by"
	fromScheduler  = "descheduler"
	evictionSource = kubevirtv1.EvictionSourceAnnotation
)

// validateEviction keeps a launcher pod from being evicted where its guest is to leave the node by itself, and asks it
// to. A pod that is no launcher, and one of a guest that may be stopped, may be evicted.
func (h *handler) validateEviction(ctx context.Context, req admission.Request) admission.Response {
	pod, err := h.pod(ctx, req.Namespace, req.Name)
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
	vmi, err := h.instance(ctx, req.Namespace, name)
	if err != nil {
		return tooMany("kubevirt failed getting the vmi: %v", err)
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	leave, problem := leaves(vmi, cluster)
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

// leaves says whether a guest leaves its node when its pod is to be evicted, or why it can do neither.
func leaves(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) (leave bool, problem string) {
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

// evacuate marks an instance: whoever moves guests sees it.
func (h *handler) evacuate(
	ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, node string, eviction *policyv1.Eviction, dry bool,
) error {
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// Another instance of its name is not meant, nor one that has left the node meanwhile. A mark of another node is of
	// before it was moved, and is replaced.
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

// tooMany is the answer that whoever drains a node takes for "not yet, ask again".
func tooMany(format string, args ...any) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Message: fmt.Sprintf(format, args...), Code: http.StatusTooManyRequests},
	}}
}
