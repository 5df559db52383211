package cluster

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// errorKubernetes is the type of errors that the API server, or the way to it, may get over by itself.
const errorKubernetes = "Kubernetes"

// maxError bounds what an error adds to a history, in bytes.
const maxError = 512

// failure makes an application error of what the API server answered. Causes are not attached: they would go into the
// history whole.
func failure(doing string, err error) error {
	message := contract.Cut(doing+": "+withoutSecrets(err), maxError)
	switch {
	case apierrors.IsNotFound(err):
		return final(contract.ErrorGone, message)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return final(contract.ErrorInvalid, message)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return temporal.NewApplicationError(message, contract.ErrorForbidden)
	default:
		return temporal.NewApplicationError(message, errorKubernetes)
	}
}

// notMade is failure for what is made for an object. That the answer is "not found" says nothing of that object: it may
// be a webhook's.
func notMade(doing string, err error) error {
	if apierrors.IsNotFound(err) {
		return temporal.NewApplicationError(contract.Cut(doing+": "+withoutSecrets(err), maxError),
			contract.ErrorForbidden)
	}
	return failure(doing, err)
}

// gone is the answer about an object that no longer exists, or whose name another one has by now.
func gone(format string, args ...any) error {
	return final(contract.ErrorGone, fmt.Sprintf(format, args...))
}

func final(kind, message string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil)
}

// withoutSecrets is the text of an error without the values of fields that hold users' data: the API server repeats the
// value that it refuses.
func withoutSecrets(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err.Error()
	}
	var causes []string
	hidden := false
	for _, c := range status.Status().Details.Causes {
		if private(c.Field) {
			hidden = true
			causes = append(causes, c.Field+": refused (its value is not repeated here)")
			continue
		}
		causes = append(causes, cause(c))
	}
	if !hidden {
		return err.Error()
	}
	return strings.Join(causes, "; ")
}

func cause(c metav1.StatusCause) string {
	if c.Field == "" {
		return c.Message
	}
	return c.Field + ": " + c.Message
}

func private(field string) bool {
	for _, part := range []string{"cloudInit", "userData", "networkData", "UserData", "NetworkData", "annotations",
		"data["} {
		if strings.Contains(field, part) {
			return true
		}
	}
	return false
}
