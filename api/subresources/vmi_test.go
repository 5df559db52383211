package subresources_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

const vmiConflict = `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": `

func TestSendsOperationsToEntity(t *testing.T) {
	r := newRig(t)
	r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.LivenessProbe = &kubevirtv1.Probe{}
		vmi.Spec.Domain.Features = &kubevirtv1.Features{ACPI: kubevirtv1.FeatureState{Enabled: new(false)}}
	})
	r.vmi("plain", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.LivenessProbe = &kubevirtv1.Probe{
			Handler: kubevirtv1.Handler{GuestAgentPing: &kubevirtv1.GuestAgentPing{}}}
	})
	for path, want := range map[string]contract.InstanceRequest{
		"web/pause":        {Operation: contract.OperationPause, Probed: true},
		"plain/pause":      {Operation: contract.OperationPause, ACPI: true},
		"plain/unpause":    {Operation: contract.OperationUnpause, ACPI: true},
		"plain/freeze":     {Operation: contract.OperationFreeze, ACPI: true, ThawAfter: 90},
		"plain/unfreeze":   {Operation: contract.OperationUnfreeze, ACPI: true},
		"plain/softreboot": {Operation: contract.OperationSoftReboot, ACPI: true},
		"plain/reset":      {Operation: contract.OperationReset, ACPI: true},
	} {
		r.asked = nil
		body := ""
		if want.ThawAfter > 0 {
			body = `{"unfreezeTimeout":"1m29.5s"}`
		}
		require.Equal(t, answer{code: 200}, r.do("PUT", "virtualmachineinstances/"+path, body), path)
		require.Len(t, r.asked, 1)
		name, _, _ := cut(path)
		want.UID, want.Actor = string(r.getVMI(name).UID), "jane"
		require.Equal(t, want, r.asked[0], path)
	}
	r.asked = nil
	require.Equal(t, 200, r.do("PUT", "virtualmachineinstances/plain/pause", `{"dryRun":["All"]}`).code)
	require.True(t, r.asked[0].DryRun)
	require.Equal(t, 400, r.do("PUT", "virtualmachineinstances/plain/freeze", `{"unfreezeTimeout":"-1s"}`).code)
	require.Equal(t, 400, r.do("PUT", "virtualmachineinstances/plain/freeze", `{"unfreezeTimeout":"soon"}`).code)
}

func cut(path string) (string, string, bool) {
	for i := range path {
		if path[i] == '/' {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// TestRequestID: it is the API server's, for one user, one object and one operation.
func TestRequestID(t *testing.T) {
	r := newRig(t)
	r.vmi("web", kubevirtv1.Running, nil)
	r.vmi("other", kubevirtv1.Running, nil)
	ask := func(name, operation, user, id string) string {
		h := jane()
		h.Set("X-Remote-User", user)
		if id != "" {
			h.Set("Audit-Id", id)
		}
		require.Equal(t, 200, r.send(&r.proxy, h, "PUT", "virtualmachineinstances/"+name+"/"+operation, "").code)
		return r.ids[len(r.ids)-1]
	}
	first := ask("web", "reset", "jane", "a")
	require.Equal(t, first, ask("web", "reset", "jane", "a"))
	for _, other := range []string{
		ask("web", "reset", "jane", "b"), ask("web", "reset", "joe", "a"), ask("web", "pause", "jane", "a"),
		ask("other", "reset", "jane", "a"),
		ask("web", "reset", "jane", ""),
	} {
		require.NotEqual(t, first, other)
	}
	require.NotEqual(t, ask("web", "reset", "jane", ""), ask("web", "reset", "jane", ""))
}

func TestRefusalsInKubeVirtsWords(t *testing.T) {
	r := newRig(t)
	r.vmi("web", kubevirtv1.Running, nil)
	for _, c := range []struct {
		err     error
		code    int
		message string
	}{
		{&subresources.Refusal{Type: contract.RefusedState, Message: "VMI is already paused"}, 409,
			vmiConflict + "VMI is already paused"},
		{&subresources.Refusal{Type: contract.RefusedProbed, Message: "probed"}, 403,
			`virtualmachineinstance.kubevirt.io "web" is forbidden: probed`},
		{&subresources.Refusal{Type: contract.RefusedPhase, Message: "Unable"}, 400, "Unable"},
		{&subresources.Refusal{Type: contract.RefusedGone, Message: "gone"}, 404,
			`virtualmachineinstance.kubevirt.io "web" not found`},
		{&subresources.Refusal{Type: contract.RefusedAway, Message: "Gone."}, 503, "Gone."},
		{&subresources.Refusal{Type: contract.RefusedFailed, Message: "no agent"}, 500,
			"Internal error occurred: no agent"},
		{subresources.Unavailable("Temporal is away."), 503, "Temporal is away."},
	} {
		r.err = c.err
		a := r.do("PUT", "virtualmachineinstances/web/pause", "")
		require.Equal(t, c.code, a.code)
		require.Equal(t, c.message, a.status.Message)
		require.EqualValues(t, c.code, a.status.Code)
	}
}

// updates is a fake of Temporal.
type updates struct {
	sdk.WorkflowUpdateHandle
	options sdk.UpdateWorkflowOptions
	refuse  error
	fail    error
	hang    bool
}

func (u *updates) UpdateWorkflow(ctx context.Context, o sdk.UpdateWorkflowOptions) (sdk.WorkflowUpdateHandle, error) {
	u.options = o
	if u.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return u, u.refuse
}

func (u *updates) Get(context.Context, any) error { return u.fail }

// TestUpdateUnknownToWorker: while a release is rolled out, an entity may run on a worker of the previous one. The text
// is Temporal's own.
func TestUpdateUnknownToWorker(t *testing.T) {
	env := environment.New()
	var words error
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(string(contract.OperationPause), "id", &testsuite.TestUpdateCallback{
			OnReject: func(err error) { words = err }, OnAccept: func() {}, OnComplete: func(any, error) {},
		}, contract.InstanceRequest{})
	}, time.Second)
	env.ExecuteWorkflow(func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Minute) })
	require.NoError(t, env.GetWorkflowError())
	require.Error(t, words)

	r := newRig(t)
	r.vmi("web", kubevirtv1.Running, nil)
	u := &updates{refuse: temporal.NewApplicationError(words.Error(), "errorString")}
	r.err = subresources.Temporal{Client: u}.Operate(t.Context(), "default", "web", "id",
		contract.InstanceRequest{Operation: contract.OperationPause})
	a := r.do("PUT", "virtualmachineinstances/web/pause", "")
	require.Equal(t, 503, a.code)
	require.Contains(t, a.status.Message, "an older version")
	require.Equal(t, "5", a.again, "clients of Kubernetes then ask again by themselves")
	require.EqualValues(t, 5, a.status.Details.RetryAfterSeconds)

	r.err = subresources.Unavailable("It was begun.")
	require.Empty(t, r.do("PUT", "virtualmachineinstances/web/pause", "").again)
}

func TestUpdatesOfWorkflows(t *testing.T) {
	u := &updates{}
	e := subresources.Temporal{Client: u}
	request := contract.InstanceRequest{Operation: contract.OperationPause, UID: "u"}
	operate := func() error { return e.Operate(t.Context(), "default", "web", "id", request) }
	require.NoError(t, operate())
	sent, ok := u.options.Args[0].(contract.InstanceRequest)
	require.True(t, ok)
	require.True(t, sent.NotAfter.After(time.Now()), "it must not be carried out after the request's deadline")
	request.NotAfter = sent.NotAfter
	require.Equal(t, sdk.UpdateWorkflowOptions{
		WorkflowID: "vmi/default/web", UpdateName: "pause", UpdateID: "id", Args: []any{request},
		WaitForStage: sdk.WorkflowUpdateStageAccepted,
	}, u.options)

	var refusal *subresources.Refusal
	u.refuse = temporal.NewApplicationError("VMI is already paused", contract.RefusedState)
	require.ErrorAs(t, operate(), &refusal)
	require.Equal(t, subresources.Refusal{Type: contract.RefusedState, Message: "VMI is already paused"}, *refusal)
	u.refuse, u.fail = nil, temporal.NewApplicationError("", "AcceptedUpdateCompletedWorkflow")
	require.ErrorAs(t, operate(), &refusal)
	require.Equal(t, "VMI is not running", refusal.Message)
	u.fail = errors.New("connection lost")
	require.ErrorContains(t, operate(), "its outcome is unknown")
	u.refuse = serviceerror.NewNotFound("no workflow")
	require.ErrorContains(t, operate(), "does not run yet")
	u.refuse = serviceerror.NewResourceExhausted(1, "too many")
	require.ErrorContains(t, operate(), "too many")
	u.refuse, u.fail = nil, serviceerror.NewResourceExhausted(1, "too many")
	require.ErrorContains(t, operate(), "its outcome is unknown", "a client must not repeat what was begun")
	u.hang = true
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, e.Operate(ctx, "default", "web", "id", request),
		"may still be carried out within half a minute.")
}
