package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/contract"
)

// step is one step of a JSON patch (RFC 6902).
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// errUnderway is KubeVirt's answer to a second request before the first has been carried out.
var errUnderway = errors.New("unable to complete request: stop/start already underway")

// strategyPatch changes the effective run strategy of a VM from the one that was read, and records the user.
func strategyPatch(vm *kubevirtv1.VirtualMachine, to kubevirtv1.VirtualMachineRunStrategy, actor string) []step {
	var steps []step
	if vm.Spec.RunStrategy == nil && vm.Spec.Running != nil {
		steps = []step{{"test", "/spec/running", *vm.Spec.Running},
			{"replace", "/spec/running", to != kubevirtv1.RunStrategyHalted}}
	} else {
		// A VM with neither field is Halted.
		steps = []step{{"test", "/spec/runStrategy", vm.Spec.RunStrategy}, {"add", "/spec/runStrategy", to}}
	}
	if vm.Annotations == nil {
		return append(steps,
			step{"test", "/metadata/annotations", nil},
			step{"add", "/metadata/annotations", map[string]string{contract.AnnotationRequestedBy: actor}})
	}
	return append(steps, step{"add",
		"/metadata/annotations/" + strings.ReplaceAll(contract.AnnotationRequestedBy, "/", "~1"), actor})
}

// requestPatch puts state change requests into a VM's status, and records the user. A single Stop replaces pending
// requests; anything else requires that none is pending.
func requestPatch(
	vm *kubevirtv1.VirtualMachine, actor string, requests ...kubevirtv1.VirtualMachineStateChangeRequest,
) ([]step, error) {
	for i := range requests {
		if requests[i].Data == nil {
			requests[i].Data = map[string]string{}
		}
		requests[i].Data[contract.AnnotationRequestedBy] = actor
	}
	if equality.Semantic.DeepEqual(vm.Status, kubevirtv1.VirtualMachineStatus{}) {
		// The status has nothing to compare; a first status that was written meanwhile must not be lost.
		return []step{
			{"test", "/metadata/resourceVersion", vm.ResourceVersion},
			{"add", "/status", kubevirtv1.VirtualMachineStatus{StateChangeRequests: requests}},
		}, nil
	}
	var steps []step
	replaces := len(requests) == 1 && requests[0].Action == kubevirtv1.StopRequest
	switch waiting := vm.Status.StateChangeRequests; {
	case len(waiting) > 0 && !replaces:
		return nil, errUnderway
	case len(waiting) > 0:
		steps = []step{{"test", "/status/stateChangeRequests", waiting},
			{"replace", "/status/stateChangeRequests", requests}}
	default:
		steps = []step{{"test", "/status/stateChangeRequests", nil}, {"add", "/status/stateChangeRequests", requests}}
	}
	if vm.Status.StartFailure != nil {
		steps = append(steps, step{Op: "remove", Path: "/status/startFailure"})
	}
	return steps, nil
}

// changedError has the answer to a request whose object was changed between its read and its write.
type changedError struct{ answer error }

// Error implements error.
func (e *changedError) Error() string { return e.answer.Error() }

// patchVM patches a VM, or its status.
func (s *Service) patchVM(ctx context.Context, vm *kubevirtv1.VirtualMachine, status, dry bool, steps []step) error {
	patch, err := rawPatch(steps)
	if err != nil {
		return err
	}
	object := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	switch {
	case status && dry:
		err = s.Client.Status().Patch(ctx, object, patch, client.DryRunAll)
	case status:
		err = s.Client.Status().Patch(ctx, object, patch)
	case dry:
		err = s.Client.Patch(ctx, object, patch, client.DryRunAll)
	default:
		err = s.Client.Patch(ctx, object, patch)
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return VMNotFound(vm.Name)
	case failedTest(err):
		return &changedError{VMConflict(vm.Name, "it has changed meanwhile: try again")}
	default:
		return apierrors.NewInternalError(err)
	}
}

// patchGrace sets the grace period of a VMI's guest, in seconds; nil removes it.
func (s *Service) patchGrace(
	ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, seconds *int64, dry bool,
) error {
	const path = "/spec/terminationGracePeriodSeconds"
	steps := []step{{"test", "/metadata/uid", vmi.UID}, {"add", path, seconds}}
	if seconds == nil {
		steps[1] = step{Op: "remove", Path: path}
	}
	patch, err := rawPatch(steps)
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if dry {
		options = append(options, client.DryRunAll)
	}
	object := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name}}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return vmiWritten(vmi.Name, s.Client.Patch(ctx, object, patch, options...))
}

// vmiWritten returns the answer to a patch of a VMI: it may be gone by now, or no longer be as it was read.
func vmiWritten(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return VMINotFound(name)
	case failedTest(err):
		return VMIConflict(name, "it has changed meanwhile: try again")
	default:
		return apierrors.NewInternalError(err)
	}
}

func rawPatch(steps []step) (client.Patch, error) {
	data, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}

// failedTest reports whether a patch was refused because its object has changed. The API server calls that invalid,
// without a cause.
func failedTest(err error) bool {
	var known apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &known) {
		return apierrors.IsConflict(err)
	}
	d := known.Status().Details
	return d == nil || len(d.Causes) == 0
}
