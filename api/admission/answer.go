package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxCauses is how many causes of a refusal are returned, as in KubeVirt.
const maxCauses = 10

// refusal returns causes as KubeVirt does: status 422, their texts joined.
func refusal(causes []metav1.StatusCause) admission.Response {
	listed := causes[:min(len(causes), maxCauses)]
	messages := make([]string, len(listed))
	for i, c := range listed {
		messages[i] = c.Message
	}
	message := strings.Join(messages, ", ")
	if more := len(causes) - len(listed); more > 0 {
		message = fmt.Sprintf("%s, and %d more validation errors", message, more)
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Message: message,
			Reason:  metav1.StatusReasonInvalid,
			Code:    http.StatusUnprocessableEntity,
			Details: &metav1.StatusDetails{Causes: listed},
		},
	}}
}

// texts returns causes that name neither a reason nor a field.
func texts(found []string) []metav1.StatusCause {
	causes := make([]metav1.StatusCause, len(found))
	for i, f := range found {
		causes[i].Message = f
	}
	return causes
}

// answer allows, or refuses with causes.
func answer(causes []metav1.StatusCause, warnings ...string) admission.Response {
	if len(causes) > 0 {
		return refusal(causes)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// firstOf applies checks until one finds a cause.
func firstOf(checks ...func() []metav1.StatusCause) []metav1.StatusCause {
	for _, check := range checks {
		if causes := check(); len(causes) > 0 {
			return causes
		}
	}
	return nil
}

// badRequest answers requests that cannot be read; the text is the error's alone, as in KubeVirt.
func badRequest(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, err)
}

// decode decodes an object of a request.
func decode[T any](raw []byte, what string) (*T, error) {
	var object T
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return &object, nil
}

// part is a top-level part of an object, such as spec, with its new value.
type part struct {
	name  string
	value any
}

// patchResponse returns an answer that replaces parts of an object.
func patchResponse(parts ...part) admission.Response {
	r := admission.Allowed("")
	for _, p := range parts {
		// In a JSON patch, add replaces an existing value.
		r.Patches = append(r.Patches, jsonpatch.NewOperation("add", "/"+p.name, p.value))
	}
	return r
}
