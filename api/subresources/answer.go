package subresources

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Resources as KubeVirt's errors name them: in the singular.
var (
	vmResource  = schema.GroupResource{Group: kubevirtv1.GroupVersion.Group, Resource: "virtualmachine"}
	vmiResource = schema.GroupResource{Group: kubevirtv1.GroupVersion.Group, Resource: "virtualmachineinstance"}
)

// Plain is an error that KubeVirt answers as plain text instead of a Status.
type Plain struct {
	Code int
	Text string
}

// Error is the text.
func (p *Plain) Error() string { return p.Text }

// AsPlain returns an error that is answered as plain text and with code 500: KubeVirt's way for errors of reads from a
// guest.
func AsPlain(err error) error {
	if err == nil {
		return nil
	}
	return &Plain{Code: http.StatusInternalServerError, Text: err.Error()}
}

// VMNotFound returns KubeVirt's 404 for a VirtualMachine.
func VMNotFound(name string) error { return apierrors.NewNotFound(vmResource, name) }

// VMINotFound returns KubeVirt's 404 for a VirtualMachineInstance.
func VMINotFound(name string) error { return apierrors.NewNotFound(vmiResource, name) }

// VMConflict returns KubeVirt's 409 for a VirtualMachine that is in the wrong state.
func VMConflict(name, why string) error {
	return apierrors.NewConflict(vmResource, name, errors.New(why))
}

// VMIConflict returns KubeVirt's 409 for a VirtualMachineInstance that is in the wrong state.
func VMIConflict(name, why string) error {
	return apierrors.NewConflict(vmiResource, name, errors.New(why))
}

// NotYet returns the 501 for what virtflow does not support yet; text is a whole sentence with the reason.
func NotYet(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: metav1.StatusReason("NotImplemented"),
		Message: text,
	}}
}

// Unavailable returns the 503 for what cannot be done at the moment; text is a whole sentence with the reason.
func Unavailable(text string) error { return apierrors.NewServiceUnavailable(text) }

// UnavailableFor returns the 503 for a request that may be repeated after some seconds. Clients of Kubernetes repeat it
// by themselves, so it is only for requests of which nothing has been carried out.
func UnavailableFor(text string, seconds int) error {
	err := apierrors.NewServiceUnavailable(text)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)}
	return err
}

// Fail answers with an error. It has no effect after the answer has begun.
func Fail(w http.ResponseWriter, err error) {
	var plain *Plain
	if errors.As(err, &plain) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(plain.Code)
		_, _ = w.Write([]byte(plain.Text))
		return
	}
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	JSON(w, int(status.Code), status)
}

func statusOf(err error) metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	s := known.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
	}
	return s
}

// JSON answers with a value.
func JSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
