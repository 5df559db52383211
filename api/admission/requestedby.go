package admission

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
)

// recordRequest records the user behind the desired state of an object: the one who made it or changed its spec. Any
// other change keeps the record, whatever the request has there.
func (h *handler) recordRequest(req admission.Request, object, old *metav1.ObjectMeta, changed bool) {
	if h.isOwnCall(req) {
		return
	}
	user := req.UserInfo.Username
	if !changed {
		user = old.Annotations[contract.AnnotationRequestedBy]
	}
	if user == "" {
		delete(object.Annotations, contract.AnnotationRequestedBy)
		return
	}
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[contract.AnnotationRequestedBy] = user
}

// keepRecord keeps everything of an object that is being deleted, except that the record of its user must stay as it
// was.
func (h *handler) keepRecord(
	req admission.Request, object *metav1.ObjectMeta, old *metav1.ObjectMeta,
) admission.Response {
	if h.isOwnCall(req) {
		return admission.Allowed("")
	}
	before := object.DeepCopy()
	for _, name := range []string{contract.AnnotationRequestedBy, contract.AnnotationRequestedGeneration} {
		if was, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(object, name, was)
		} else {
			delete(object.Annotations, name)
		}
	}
	if equality.Semantic.DeepEqual(before, object) {
		return admission.Allowed("")
	}
	return patchResponse(part{"metadata", *object})
}
