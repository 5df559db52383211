package admission

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/workflows/contract"
)

// recordRequest writes who is behind the desired state of an object: the user who made it or changed its spec. Any
// other change leaves the record as it was, whatever the request says.
func (h *handler) recordRequest(req admission.Request, object, old *metav1.ObjectMeta, changed bool) {
	if h.own(req) {
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

// keepRecord leaves an object that is being deleted as it is, but for the record of who asked: that nobody changes any
// more.
func (h *handler) keepRecord(
	req admission.Request, object *metav1.ObjectMeta, old *metav1.ObjectMeta,
) admission.Response {
	if h.own(req) {
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
	return patched(part{"metadata", *object})
}
