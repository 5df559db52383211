package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/virtflow/virtflow/workflows/contract"
)

// temporal keeps the token as the workflow does.
type temporal struct {
	client.Client
	token *Token // nil: no workflow runs
	down  error
	lost  error // of an Update that is done
}

func (t *temporal) QueryWorkflowWithOptions(
	context.Context, *client.QueryWorkflowWithOptionsRequest,
) (*client.QueryWorkflowWithOptionsResponse, error) {
	switch {
	case t.down != nil:
		return nil, t.down
	case t.token == nil:
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	b, err := json.Marshal(t.token)
	if err != nil {
		return nil, err
	}
	payloads := &commonpb.Payloads{
		Payloads: []*commonpb.Payload{
			{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("json/plain")}, Data: b}}}
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, nil
}

func (t *temporal) NewWithStartWorkflowOperation(
	client.StartWorkflowOptions, any, ...any,
) client.WithStartWorkflowOperation {
	return nil
}

func (t *temporal) UpdateWithStartWorkflow(
	_ context.Context, o client.UpdateWithStartWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	a, ok := o.UpdateOptions.Args[0].(contract.AdvanceInput)
	if t.token == nil {
		t.token = &Token{}
	}
	if !ok || a.From != *t.token {
		return nil, errors.New("refused")
	}
	t.token = &a.To
	if t.lost != nil {
		return nil, t.lost
	}
	return done{}, nil
}

type done struct{ client.WorkflowUpdateHandle }

func (done) Get(context.Context, any) error { return nil }

func TestLook(t *testing.T) {
	clients := fake.NewClientset()
	leases := clients.CoordinationV1().Leases("virtflow")
	server := &temporal{}
	f := New(server, leases)
	epoch, err := f.Epoch(t.Context())
	require.NoError(t, err)
	require.Zero(t, epoch)
	look := func(epoch, counter int64) Verdict {
		t.Helper()
		v, err := f.Look(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, Token{Epoch: epoch, Counter: counter}, v.Next)
		require.Equal(t, v.Next, *server.token)
		written, _, err := f.kubernetesSide(t.Context())
		require.NoError(t, err)
		require.Equal(t, v.Next, written)
		return v
	}
	require.False(t, look(1, 1).Older())
	require.False(t, look(1, 2).Older())

	server.down = serviceerror.NewUnavailable("down")
	_, err = f.Look(t.Context(), false)
	require.Error(t, err)
	server.down = nil
	require.False(t, look(1, 3).Older(), "being away is not being older")

	server.token = nil
	require.Equal(t, Verdict{Next: Token{Epoch: 2, Counter: 1}, Temporal: true}, look(2, 1))
	require.False(t, look(2, 2).Older())

	lease, err := leases.Get(t.Context(), LeaseName, metav1.GetOptions{})
	require.NoError(t, err)
	lease.Annotations[annotationEpoch], lease.Annotations[annotationCounter] = "1", "3"
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, Verdict{Next: Token{Epoch: 3, Counter: 1}, Kubernetes: true}, look(3, 1))
	require.NoError(t, leases.Delete(t.Context(), LeaseName, metav1.DeleteOptions{}))
	require.True(t, look(4, 1).Kubernetes)
	epoch, err = f.Epoch(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4, epoch)

	v, err := f.Look(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, Verdict{Next: Token{Epoch: 5, Counter: 1}, Kubernetes: true}, v)
	require.False(t, look(5, 2).Older())

	// Answers get lost, again and again: a look goes on where the last one ended.
	for range 3 {
		server.lost = errors.New("deadline exceeded")
		_, err = f.Look(t.Context(), false)
		require.Error(t, err)
	}
	server.lost = nil
	v, err = f.Look(t.Context(), false)
	require.NoError(t, err)
	require.False(t, v.Older(), "an answer that was lost is no older copy")
	look(5, v.Next.Counter+1)

	// A process that has just started knows both sides from nowhere else.
	f = New(server, leases)
	require.False(t, look(5, v.Next.Counter+2).Older())
}
