package subresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtflow/virtflow/workflows/contract"
)

// unknownUpdate begins what Temporal's SDK says where a workflow's worker does not know an Update: one of an older
// version. retryAfterUpdate is when to ask again, in seconds: a rolling update takes a run to a newer worker with its
// next task.
const (
	unknownUpdate    = "unknown update "
	retryAfterUpdate = 5
)

// Updater is the part of Temporal's client that is needed.
type Updater interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
}

// Temporal does operations through Updates of the entities' workflows. It is safe for concurrent use.
type Temporal struct {
	Client Updater
}

// Operate implements Entities.
func (t Temporal) Operate(ctx context.Context, namespace, name, id string, r contract.InstanceRequest) error {
	r.NotAfter = time.Now().Add(contract.OperationAnswered)
	limited, cancel := context.WithTimeout(ctx, contract.OperationAccepted)
	defer cancel()
	handle, err := t.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
		WorkflowID: contract.VMIID(namespace, name), UpdateName: string(r.Operation), UpdateID: id, Args: []any{r},
		WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	if err != nil {
		return outcome(err, "Nobody decides about it at the moment: Temporal, or virtflow's control worker, does not "+
			"answer. It may still be done within half a minute.")
	}
	patient, stop := context.WithTimeout(ctx, contract.OperationAnswered)
	defer stop()
	err = handle.Get(patient, nil)
	var busy *serviceerror.ResourceExhausted
	if errors.As(err, &busy) {
		err = errors.New(busy.Error()) // no reason to begin it again
	}
	return outcome(err, "It was begun, but its outcome is not known.")
}

// outcome sorts what comes back from Temporal; late is what a missing answer means.
func outcome(err error, late string) error {
	var app *temporal.ApplicationError
	var busy *serviceerror.ResourceExhausted
	var none *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &app) && app.Type() == ended:
		return &Refusal{Type: contract.RefusedState, Message: "VMI is not running"}
	case errors.As(err, &app) && strings.HasPrefix(app.Message(), unknownUpdate):
		return UnavailableFor("virtflow's control worker, which decides about it, is of an older version that does "+
			"not know it; it is being replaced, or has to be.", retryAfterUpdate)
	case errors.As(err, &app):
		return &Refusal{Type: app.Type(), Message: app.Message()}
	case errors.As(err, &busy):
		return apierrors.NewTooManyRequests("Too much is asked of this instance, or of Temporal, at once: "+
			busy.Error()+".", 1)
	case errors.As(err, &none):
		return Unavailable("The workflow of this instance is not there yet. It is started again within minutes when " +
			"it was lost.")
	default:
		return Unavailable(fmt.Sprintf("%s (%v)", late, err))
	}
}

// ended is what Temporal says when a workflow ends while one of its Updates goes on.
const ended = "AcceptedUpdateCompletedWorkflow"
