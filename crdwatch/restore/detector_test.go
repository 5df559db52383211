package restore

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

	"github.com/virtflow/virtflow/contract"
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

func TestCheck(t *testing.T) {
	clients := fake.NewClientset()
	leases := clients.CoordinationV1().Leases("virtflow")
	server := &temporal{}
	d := New(server, leases)
	epoch, err := d.Epoch(t.Context())
	require.NoError(t, err)
	require.Zero(t, epoch)
	check := func(epoch, counter int64) Result {
		t.Helper()
		v, err := d.Check(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, Token{Epoch: epoch, Counter: counter}, v.Next)
		require.Equal(t, v.Next, *server.token)
		written, _, err := d.readKubernetes(t.Context())
		require.NoError(t, err)
		require.Equal(t, v.Next, written)
		return v
	}
	require.False(t, check(1, 1).IsRestored())
	require.False(t, check(1, 2).IsRestored())

	server.down = serviceerror.NewUnavailable("down")
	_, err = d.Check(t.Context(), false)
	require.Error(t, err)
	server.down = nil
	require.False(t, check(1, 3).IsRestored(), "an outage is no restore")

	server.token = nil
	require.Equal(t, Result{Next: Token{Epoch: 2, Counter: 1}, Temporal: true}, check(2, 1))
	require.False(t, check(2, 2).IsRestored())

	lease, err := leases.Get(t.Context(), LeaseName, metav1.GetOptions{})
	require.NoError(t, err)
	lease.Annotations[annotationEpoch], lease.Annotations[annotationCounter] = "1", "3"
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, Result{Next: Token{Epoch: 3, Counter: 1}, Kubernetes: true}, check(3, 1))
	require.NoError(t, leases.Delete(t.Context(), LeaseName, metav1.DeleteOptions{}))
	require.True(t, check(4, 1).Kubernetes)
	epoch, err = d.Epoch(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4, epoch)

	v, err := d.Check(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, Result{Next: Token{Epoch: 5, Counter: 1}, Kubernetes: true}, v)
	require.False(t, check(5, 2).IsRestored())

	// Answers get lost, again and again: a check continues where the last one ended.
	for range 3 {
		server.lost = errors.New("deadline exceeded")
		_, err = d.Check(t.Context(), false)
		require.Error(t, err)
	}
	server.lost = nil
	v, err = d.Check(t.Context(), false)
	require.NoError(t, err)
	require.False(t, v.IsRestored(), "an answer that was lost is no restore")
	check(5, v.Next.Counter+1)

	// A process that has just started knows both sides from nowhere else.
	d = New(server, leases)
	require.False(t, check(5, v.Next.Counter+2).IsRestored())
}
