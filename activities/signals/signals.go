package signals

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/contract"
)

// Sender sends signals; it is a part of Temporal's client.
type Sender interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Activities are safe for concurrent use if Sender is.
type Activities struct{ Sender Sender }

// Signal signals the open workflow of an ID; that there is none is no error. A second attempt signals once more: use it
// for signals that state what is true, not what has happened.
func (a *Activities) Signal(ctx context.Context, in contract.SignalInput) error {
	err := a.Sender.SignalWorkflow(ctx, in.ID, "", in.Signal, in.Payload)
	if err == nil || errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	return fmt.Errorf("signalling %s to %s: %w", in.Signal, in.ID, err)
}
