package subresources

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChangedVMI: a VMI that has changed is a conflict; one that cannot be written is an internal error.
func TestChangedVMI(t *testing.T) {
	// The API server's answer to a patch whose test fails: it names no cause.
	failed := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", vmiResource, "web", "", 0,
		false)
	invalid := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec"}}},
	}}
	for name, c := range map[string]struct {
		err  error
		code int32
	}{
		"gone":         {apierrors.NewNotFound(vmiResource, "web"), http.StatusNotFound},
		"changed":      {failed, http.StatusConflict},
		"written":      {apierrors.NewConflict(vmiResource, "web", errors.New("x")), http.StatusConflict},
		"not accepted": {invalid, http.StatusInternalServerError},
		"out of reach": {errors.New("connection refused"), http.StatusInternalServerError},
	} {
		var status apierrors.APIStatus
		require.ErrorAs(t, vmiWritten("web", c.err), &status, name)
		require.Equal(t, c.code, status.Status().Code, name)
	}
	require.NoError(t, vmiWritten("web", nil))
}
