package signals_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/activities/signals"
	"github.com/virtflow/virtflow/contract"
)

type sender func(id, run, signal string, payload any) error

func (s sender) SignalWorkflow(_ context.Context, id, run, signal string, payload any) error {
	return s(id, run, signal, payload)
}

func TestSignal(t *testing.T) {
	for name, c := range map[string]struct {
		err, want error
	}{
		"there is one":    {nil, nil},
		"there is none":   {serviceerror.NewNotFound("workflow execution already completed"), nil},
		"no server is up": {serviceerror.NewUnavailable("away"), serviceerror.NewUnavailable("away")},
	} {
		t.Run(name, func(t *testing.T) {
			in := contract.SignalInput{ID: "vm/a/web/u/start/1", Signal: contract.SignalProgress,
				Payload: json.RawMessage(`{"state":"running"}`)}
			a := signals.Activities{Sender: sender(func(id, run, signal string, payload any) error {
				require.Equal(t, []any{in.ID, "", in.Signal, in.Payload}, []any{id, run, signal, payload})
				return c.err
			})}
			err := a.Signal(t.Context(), in)
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.True(t, errors.As(err, new(*serviceerror.Unavailable)))
			}
		})
	}
}
