package subresources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// auditID is the header with the API server's ID of a request. A client that sets it itself may repeat a request
// without carrying it out twice.
const auditID = "Audit-Id"

// Entities carries out operations on running instances.
type Entities interface {
	// Operate carries out one operation on an instance and returns when it is done. Repeating it under the same ID has
	// no further effect. It returns a *Refusal, or, where the outcome is unknown, an error with the text of the answer.
	Operate(ctx context.Context, namespace, name, id string, o contract.InstanceRequest) error
}

// Refusal is an entity's refusal of an operation; Type is one of those of package contract.
type Refusal struct{ Type, Message string }

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func (s *Service) pause(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.PauseOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	return s.operate(w, r, options.DryRun, contract.InstanceRequest{Operation: contract.OperationPause})
}

func (s *Service) unpause(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.UnpauseOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	return s.operate(w, r, options.DryRun, contract.InstanceRequest{Operation: contract.OperationUnpause})
}

func (s *Service) freeze(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.FreezeUnfreezeTimeout
	if err := decode(r, &options); err != nil {
		return err
	}
	request := contract.InstanceRequest{Operation: contract.OperationFreeze}
	if t := options.UnfreezeTimeout; t != nil {
		if t.Duration < 0 {
			return apierrors.NewBadRequest("unfreezeTimeout has to be greater or equal to 0")
		}
		request.ThawAfter = int64(math.Ceil(t.Seconds()))
	}
	return s.operate(w, r, nil, request)
}

func (s *Service) unfreeze(w http.ResponseWriter, r *Request) error {
	return s.operate(w, r, nil, contract.InstanceRequest{Operation: contract.OperationUnfreeze})
}

func (s *Service) softReboot(w http.ResponseWriter, r *Request) error {
	return s.operate(w, r, nil, contract.InstanceRequest{Operation: contract.OperationSoftReboot})
}

func (s *Service) reset(w http.ResponseWriter, r *Request) error {
	return s.operate(w, r, nil, contract.InstanceRequest{Operation: contract.OperationReset})
}

// operate passes an operation on to the instance's entity, which decides: it knows the state of the guest before the
// status shows it. Facts that only the object has go with the request.
func (s *Service) operate(w http.ResponseWriter, r *Request, directives []string, o contract.InstanceRequest) error {
	dry, err := dryRun(directives)
	if err != nil {
		return err
	}
	vmi, err := s.VMI(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if s.Entities == nil {
		return NotYet("This is not supported yet.")
	}
	o.UID, o.Actor, o.DryRun = string(vmi.UID), r.User.Name, dry
	o.ACPI = acpi(vmi)
	if p := vmi.Spec.LivenessProbe; p != nil && p.GuestAgentPing == nil {
		o.Probed = true
	}
	if err := s.Entities.Operate(r.Context(), r.Namespace, r.Name, requestID(r, o), o); err != nil {
		if no := (*Refusal)(nil); o.Operation == contract.OperationReset && !vmi.IsRunning() && errors.As(err, &no) &&
			no.Type != contract.RefusedGone {
			err = &Refusal{no.Type, fmt.Sprintf("Failed to reset non-running VMI with phase %s: %s", vmi.Status.Phase,
				no.Message)}
		}
		return refused(r.Name, err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// acpi reports whether the guest has ACPI: unless it is switched off.
func acpi(vmi *kubevirtv1.VirtualMachineInstance) bool {
	f := vmi.Spec.Domain.Features
	return f == nil || f.ACPI.Enabled == nil || *f.ACPI.Enabled
}

// requestID returns the same ID for a repeated request, and no other request gets it: user, object and operation are
// part of it.
func requestID(r *Request, o contract.InstanceRequest) string {
	id := r.Header.Get(auditID)
	if id == "" {
		id = uuid.NewString()
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q %q %q %t %d", id, o.UID, r.User.Name, o.DryRun, o.ThawAfter)))
	return string(o.Operation) + "/" + hex.EncodeToString(sum[:16])
}

// refused translates an entity's refusal into the error of KubeVirt's API server.
func refused(name string, err error) error {
	var no *Refusal
	if !errors.As(err, &no) {
		return err
	}
	switch no.Type {
	case contract.RefusedState:
		return VMIConflict(name, no.Message)
	case contract.RefusedPhase:
		return apierrors.NewBadRequest(no.Message)
	case contract.RefusedProbed:
		return apierrors.NewForbidden(vmiResource, name, no)
	case contract.RefusedGone:
		return VMINotFound(name)
	case contract.RefusedAway:
		return Unavailable(no.Message)
	default:
		return apierrors.NewInternalError(no)
	}
}
