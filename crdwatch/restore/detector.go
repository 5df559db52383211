package restore

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

	"github.com/virtflow/virtflow/contract"
)

// Interval is how often a leader checks both sides. A restore is detected within that time after both answer.
const Interval = 30 * time.Second

// LeaseName is the name of the Lease in virtflow's own namespace whose annotations have Kubernetes' side of the token.
const LeaseName = "virtflow-fencing-token"

const (
	annotationEpoch   = "virtflow.io/fencing-epoch"
	annotationCounter = "virtflow.io/fencing-counter"
)

// checkTimeout limits a whole check. Its query and Update wait for a control worker.
const checkTimeout = 20 * time.Second

// Detector checks both sides for one process. It is safe for concurrent use.
type Detector struct {
	temporal client.Client
	leases   coordination.LeaseInterface

	mu   sync.Mutex
	seen Token
}

// New returns a detector; leases are those of virtflow's own namespace.
func New(temporal client.Client, leases coordination.LeaseInterface) *Detector {
	return &Detector{temporal: temporal, leases: leases}
}

// Epoch returns the epoch of Kubernetes' side; 0: none has begun.
func (d *Detector) Epoch(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t, _, err := d.readKubernetes(ctx)
	return t.Epoch, err
}

// Check reads both sides, decides, and writes both. When it returns without an error, a new epoch has begun on both. A
// check by another leader at the same time makes it fail, without any loss.
//
// Restored: an informer has received an object in an older version than it had read. Then an epoch begins, whatever the
// tokens are. This is the only sign of a copy of etcd that is younger than the last check.
func (d *Detector) Check(ctx context.Context, restored bool) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	kubernetes, lease, err := d.readKubernetes(ctx)
	if err != nil {
		return Result{}, err
	}
	temporal, err := d.readTemporal(ctx)
	if err != nil {
		return Result{}, err
	}
	for {
		v := Decide(temporal, kubernetes, d.seen, restored)
		halfway := v.Next == temporal
		if !halfway {
			if err := d.writeTemporal(ctx, temporal, v.Next); err != nil {
				return Result{}, err
			}
		}
		if lease, err = d.writeKubernetes(ctx, lease, v.Next); err != nil {
			return Result{}, err
		}
		d.seen = v.Next
		if !halfway {
			return v, nil
		}
		kubernetes = v.Next
	}
}

// readKubernetes reads the token from the Lease: from the API server, not from a cache. The Lease is nil, and the token
// zero, if there is none.
func (d *Detector) readKubernetes(ctx context.Context) (Token, *coordinationv1.Lease, error) {
	lease, err := d.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Token{}, nil, nil
	}
	if err != nil {
		return Token{}, nil, fmt.Errorf("reading the fencing token from Lease %s: %w", LeaseName, err)
	}
	epoch, errEpoch := strconv.ParseInt(lease.Annotations[annotationEpoch], 10, 64)
	counter, errCounter := strconv.ParseInt(lease.Annotations[annotationCounter], 10, 64)
	if errEpoch != nil || errCounter != nil {
		return Token{}, lease, nil //nolint:nilerr // annotations that were removed count as a restore
	}
	return Token{Epoch: epoch, Counter: counter}, lease, nil
}

// writeKubernetes writes a token to the Lease, in the version that was read, and returns the updated Lease.
func (d *Detector) writeKubernetes(
	ctx context.Context, lease *coordinationv1.Lease, t Token,
) (*coordinationv1.Lease, error) {
	annotations := map[string]string{
		annotationEpoch: strconv.FormatInt(t.Epoch, 10), annotationCounter: strconv.FormatInt(t.Counter, 10),
	}
	var err error
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Annotations: annotations}}
		lease, err = d.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease = lease.DeepCopy()
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationEpoch, annotations[annotationEpoch])
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationCounter, annotations[annotationCounter])
		lease, err = d.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("writing the fencing token to Lease %s: %w", LeaseName, err)
	}
	return lease, nil
}

// readTemporal queries the workflow. The token is zero if the workflow does not run.
func (d *Detector) readTemporal(ctx context.Context) (Token, error) {
	answer, err := d.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.FencingTokenID, QueryType: contract.QueryFencingToken,
		QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	var absent *serviceerror.NotFound
	switch {
	case errors.As(err, &absent):
		return Token{}, nil
	case err != nil:
		return Token{}, fmt.Errorf("querying workflow %s for the fencing token: %w", contract.FencingTokenID, err)
	case answer.QueryRejected != nil:
		return Token{}, nil
	}
	var t Token
	if err := answer.QueryResult.Get(&t); err != nil {
		return Token{}, fmt.Errorf("reading the fencing token of workflow %s: %w", contract.FencingTokenID, err)
	}
	return t, nil
}

// writeTemporal writes Temporal's side, and starts the workflow if it does not run.
func (d *Detector) writeTemporal(ctx context.Context, from, to Token) error {
	start := d.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: contract.FencingTokenID, TaskQueue: contract.ControlTaskQueue, StaticSummary: "crdwatch's fencing token",
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Priority:                 sdk.Priority{PriorityKey: contract.PriorityKey("")},
	}, contract.WorkflowFencingToken, contract.FencingInput{})
	handle, err := d.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
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
