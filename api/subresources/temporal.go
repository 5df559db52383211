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

	"github.com/virtflow/virtflow/contract"
)

// unknownUpdate begins the error of Temporal's SDK when a workflow's worker does not support an Update, because it has
// an older version. retryAfterUpdate is the time until the next attempt, in seconds: in a rolling update a run moves to
// a newer worker with its next task.
const (
	unknownUpdate    = "unknown update "
	retryAfterUpdate = 5
)

// Updater has the calls of Temporal's client that are used here.
type Updater interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
}

// Temporal carries out operations through Updates of the entities' workflows. It is safe for concurrent use.
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
		return outcome(err, "No answer in time from Temporal or virtflow's control worker. The operation "+
			"may still be carried out within half a minute.")
	}
	patient, stop := context.WithTimeout(ctx, contract.OperationAnswered)
	defer stop()
	err = handle.Get(patient, nil)
	var busy *serviceerror.ResourceExhausted
	if errors.As(err, &busy) {
		err = errors.New(busy.Error()) // the client must not repeat it
	}
	return outcome(err, "The operation was begun, but its outcome is unknown.")
}

// outcome translates Temporal's error; late is the text for a missing answer.
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
		return UnavailableFor("virtflow's control worker has an older version that does not support this operation: "+
			"try again once it is replaced.", retryAfterUpdate)
	case errors.As(err, &app):
		return &Refusal{Type: app.Type(), Message: app.Message()}
	case errors.As(err, &busy):
		return apierrors.NewTooManyRequests("Too many requests to this instance, or to Temporal, are in flight: "+
			busy.Error()+".", 1)
	case errors.As(err, &none):
		return Unavailable("The workflow of this instance does not run yet. It is started again " +
			"within minutes when it was lost.")
	default:
		return Unavailable(fmt.Sprintf("%s (%v)", late, err))
	}
}

// ended is the type of Temporal's error when a workflow ends during one of its Updates.
const ended = "AcceptedUpdateCompletedWorkflow"
