package fencing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Interval is how often a leader looks at both sides. An older copy is noticed within that time after both answer.
const Interval = 30 * time.Second

// LeaseName is the name of the Lease in virtflow's own namespace whose annotations are Kubernetes' side.
const LeaseName = "virtflow-fencing-token"

const (
	annotationEpoch   = "virtflow.io/fencing-epoch"
	annotationCounter = "virtflow.io/fencing-counter"
)

// lookTimeout is for all of a look. A query and an Update wait for a control worker.
const lookTimeout = 20 * time.Second

// Fence is a process's view of both sides. It is safe for concurrent use.
type Fence struct {
	temporal client.Client
	leases   coordination.LeaseInterface

	mu   sync.Mutex
	seen Token
}

// New makes one; leases are those of virtflow's own namespace.
func New(temporal client.Client, leases coordination.LeaseInterface) *Fence {
	return &Fence{temporal: temporal, leases: leases}
}

// Epoch is the epoch as Kubernetes has it; 0: none has begun.
func (f *Fence) Epoch(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	t, _, err := f.kubernetesSide(ctx)
	return t.Epoch, err
}

// Look reads both sides, decides, and writes both. A new epoch has begun on both once it returns without an error.
// Another leader that looks at the same time makes it fail, and nothing is lost by that.
//
// Older says that an informer was told of an object in an older version than it had read: an epoch begins, whatever the
// tokens say. A copy of etcd that is younger than the last look is noticed by nothing else.
func (f *Fence) Look(ctx context.Context, older bool) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	kubernetes, lease, err := f.kubernetesSide(ctx)
	if err != nil {
		return Verdict{}, err
	}
	temporal, err := f.temporalSide(ctx)
	if err != nil {
		return Verdict{}, err
	}
	for {
		v := Decide(temporal, kubernetes, f.seen, older)
		halfway := v.Next == temporal
		if !halfway {
			if err := f.advance(ctx, temporal, v.Next); err != nil {
				return Verdict{}, err
			}
		}
		if lease, err = f.write(ctx, lease, v.Next); err != nil {
			return Verdict{}, err
		}
		f.seen = v.Next
		if !halfway {
			return v, nil
		}
		kubernetes = v.Next
	}
}

// kubernetesSide reads the Lease from etcd. The Lease is nil, and the token zero, where there is none.
func (f *Fence) kubernetesSide(ctx context.Context) (Token, *coordinationv1.Lease, error) {
	lease, err := f.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Token{}, nil, nil
	}
	if err != nil {
		return Token{}, nil, fmt.Errorf("reading the fencing token from Lease %s: %w", LeaseName, err)
	}
	epoch, errEpoch := strconv.ParseInt(lease.Annotations[annotationEpoch], 10, 64)
	counter, errCounter := strconv.ParseInt(lease.Annotations[annotationCounter], 10, 64)
	if errEpoch != nil || errCounter != nil {
		return Token{}, lease, nil //nolint:nilerr // somebody took it away: as good as an older copy
	}
	return Token{Epoch: epoch, Counter: counter}, lease, nil
}

// write writes a token to the Lease, in the version that was read, and returns the Lease as it is now.
func (f *Fence) write(ctx context.Context, lease *coordinationv1.Lease, t Token) (*coordinationv1.Lease, error) {
	annotations := map[string]string{
		annotationEpoch: strconv.FormatInt(t.Epoch, 10), annotationCounter: strconv.FormatInt(t.Counter, 10),
	}
	var err error
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Annotations: annotations}}
		lease, err = f.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease = lease.DeepCopy()
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationEpoch, annotations[annotationEpoch])
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationCounter, annotations[annotationCounter])
		lease, err = f.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("writing the fencing token to Lease %s: %w", LeaseName, err)
	}
	return lease, nil
}

// temporalSide asks the workflow; one that does not run has none.
func (f *Fence) temporalSide(ctx context.Context) (Token, error) {
	answer, err := f.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.FencingTokenID, QueryType: contract.QueryFencingToken,
		QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	var absent *serviceerror.NotFound
	switch {
	case errors.As(err, &absent):
		return Token{}, nil
	case err != nil:
		return Token{}, fmt.Errorf("asking workflow %s for the fencing token: %w", contract.FencingTokenID, err)
	case answer.QueryRejected != nil:
		return Token{}, nil
	}
	var t Token
	if err := answer.QueryResult.Get(&t); err != nil {
		return Token{}, fmt.Errorf("reading the fencing token of workflow %s: %w", contract.FencingTokenID, err)
	}
	return t, nil
}

// advance moves Temporal's side, whose workflow is started where it does not run.
func (f *Fence) advance(ctx context.Context, from, to Token) error {
	start := f.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: contract.FencingTokenID, TaskQueue: contract.ControlTaskQueue, StaticSummary: "crdwatch's fencing token",
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Priority:                 sdk.Priority{PriorityKey: contract.PriorityKey("")},
	}, contract.WorkflowFencingToken, contract.FencingInput{})
	handle, err := f.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: contract.FencingTokenID, UpdateName: contract.UpdateAdvance,
			Args:         []any{contract.AdvanceInput{From: from, To: to}},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("advancing the fencing token of workflow %s: %w", contract.FencingTokenID, err)
	}
	return nil
}
