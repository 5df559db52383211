package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
)

// errorKubernetes is the type of errors that the API server, or the way to it, may get over by itself.
const errorKubernetes = "Kubernetes"

// maxError limits what an error adds to a history, in bytes.
const maxError = 512

// failure returns an application error for an answer of the API server. It has no cause attached, which would go into
// the history whole.
func failure(doing string, err error) error {
	message := contract.Cut(doing+": "+withoutSecrets(err), maxError)
	switch {
	case apierrors.IsNotFound(err):
		return nonRetryable(contract.ErrorGone, message)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return nonRetryable(contract.ErrorInvalid, message)
	case isRefused(err):
		return nonRetryable(contract.ErrorForbidden, message)
	default:
		return temporal.NewApplicationError(message, errorKubernetes)
	}
}

// isRefused reports whether the API server has answered, and does not take what it was sent until a person changes what
// stands against it: a quota, RBAC, a priority class that is absent, an admission webhook that denies it. What the API
// server may get over by itself (401 while it starts, 409, 429, a webhook that cannot be called) is none, nor is no
// answer.
func isRefused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	if strings.Contains(status.Message, "denied the request") {
		return true // a webhook answers with any code that it likes
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError
	}
}

// creationFailure is failure for what is made for an object. "Not found" is then no statement about that object: it may
// be a webhook's answer.
func creationFailure(doing string, err error) error {
	if apierrors.IsNotFound(err) {
		return nonRetryable(contract.ErrorForbidden, contract.Cut(doing+": "+withoutSecrets(err), maxError))
	}
	return failure(doing, err)
}

// unfinished is failure for what follows once an object is made: whatever the API server has answered, the object was
// not refused, and another attempt finds it.
func unfinished(doing string, err error) error {
	return temporal.NewApplicationError(contract.Cut(doing+": "+withoutSecrets(err), maxError), errorKubernetes)
}

// goneError is the error for an object that no longer exists, or whose name another one has by now.
func goneError(format string, args ...any) error {
	return nonRetryable(contract.ErrorGone, fmt.Sprintf(format, args...))
}

// nonRetryable returns an application error of that type which Temporal does not retry.
func nonRetryable(kind, message string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil)
}

// withoutSecrets returns the text of an error without the values of fields that hold users' data: the API server
// repeats the value that it refuses.
func withoutSecrets(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err.Error()
	}
	var causes []string
	hidden := false
	for _, c := range status.Status().Details.Causes {
		if isPrivate(c.Field) {
			hidden = true
			causes = append(causes, c.Field+": refused (its value is not repeated here)")
			continue
		}
		causes = append(causes, causeText(c))
	}
	if !hidden {
		return err.Error()
	}
	return strings.Join(causes, "; ")
}

// causeText returns a cause with the field that it is about, if any.
func causeText(c metav1.StatusCause) string {
	if c.Field == "" {
		return c.Message
	}
	return c.Field + ": " + c.Message
}

// isPrivate reports whether a field may have secrets of the user, which do not go into a history.
func isPrivate(field string) bool {
	for _, part := range []string{"cloudInit", "userData", "networkData", "UserData", "NetworkData", "annotations",
		"data["} {
		if strings.Contains(field, part) {
			return true
		}
	}
	return false
}
