package validation

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtflow/virtflow/contract"
)

// Approval refuses an annotation that requires approval of an unknown operation: it would have no effect.
func Approval(annotations map[string]string) []metav1.StatusCause {
	list, ok := annotations[contract.AnnotationApproval]
	if !ok {
		return nil
	}
	for _, op := range strings.Split(list, ",") {
		switch contract.Operation(strings.TrimSpace(op)) {
		case contract.OperationStart, contract.OperationStop:
		default:
			return invalid(field.NewPath("metadata", "annotations").Key(contract.AnnotationApproval),
				`%q is not an operation that can wait for approval: write "start", "stop" or "start,stop"`, op)
		}
	}
	return nil
}
