package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxCauses is how many of the reasons for a refusal are told, as KubeVirt does.
const maxCauses = 10

// refused lists causes the way KubeVirt does: status 422, their texts joined.
func refused(causes []metav1.StatusCause) admission.Response {
	told := causes[:min(len(causes), maxCauses)]
	messages := make([]string, len(told))
	for i, c := range told {
		messages[i] = c.Message
	}
	message := strings.Join(messages, ", ")
	if more := len(causes) - len(told); more > 0 {
		message = fmt.Sprintf("%s, and %d more validation errors", message, more)
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Message: message,
			Reason:  metav1.StatusReasonInvalid,
			Code:    http.StatusUnprocessableEntity,
			Details: &metav1.StatusDetails{Causes: told},
		},
	}}
}

// answer allows, or refuses with causes.
func answer(causes []metav1.StatusCause, warnings ...string) admission.Response {
	if len(causes) > 0 {
		return refused(causes).WithWarnings(warnings...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// bad is for requests that cannot be read or answered.
func bad(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, err)
}

// decode reads an object of a request.
func decode[T any](raw []byte, what string) (*T, error) {
	var object T
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return &object, nil
}

// patched answers with the difference between what was sent and object.
func patched(req admission.Request, object any) admission.Response {
	raw, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("writing the object: %w", err))
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, raw)
}
