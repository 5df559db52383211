package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/workflows/contract"
)

// recordRequest writes who is behind the desired state of an object: the user who made it or changed its spec. Any other change leaves
// the record as it was, whatever the request says.
func (h *handler) recordRequest(req admission.Request, object, old *metav1.ObjectMeta, wish bool) {
	if h.own(req) {
		return
	}
	user := req.UserInfo.Username
	if !wish {
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
