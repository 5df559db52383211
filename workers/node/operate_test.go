package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

func TestOperateDomain(t *testing.T) {
	s := newScene(t)
	in := contract.OperateDomainInput{VMI: input.VMI, Pod: input.Pod, Operation: contract.OperationFreeze, ThawAfter: 7}
	fails := func(kind, message string, permanent bool) {
		t.Helper()
		_, err := s.activities.OperateDomain(context.Background(), in)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, kind, app.Type())
		require.Contains(t, app.Message(), message)
		require.Equal(t, permanent, app.NonRetryable())
	}
	fails(contract.ErrorNotBegun, "no launcher", true)
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	fails(contract.RefusedFailed, "older version", true)

	var asked *rpc.OperateRequest
	var answer error
	s.launcher.Operation = func(_ context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
		asked = r
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED), answer
	}
	r, err := s.activities.OperateDomain(context.Background(), in)
	require.NoError(t, err)
	require.Equal(t, contract.DomainObservation{PodUID: pod, Sequence: 1, State: contract.DomainPaused}, r.Domain)
	require.Equal(t, rpc.Operation_OPERATION_FREEZE, asked.GetOperation())
	require.EqualValues(t, 7, asked.GetThawAfterSeconds())

	answer = status.Error(codes.FailedPrecondition, "the guest's agent is not connected")
	fails(contract.RefusedFailed, "the guest's agent is not connected", true)
	answer = status.Error(codes.Unavailable, "libvirt does not answer")
	fails(contract.ErrorNoLauncher, "libvirt does not answer", false)
	in.Operation = "explode"
	fails(contract.RefusedFailed, "no operation", true)
	in.Pod.UID = "../../etc"
	fails(contract.RefusedFailed, "not the UID of a pod", true)
	in.Pod.UID = ""
	fails(contract.ErrorInvalid, "", true)
}
