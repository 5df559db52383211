package diff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Clients read what a resync needs: objects which informers may not have yet, or no longer have, and workflows.
type Clients struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	Temporal   client.Client
}

// sources has what a resync reads from.
type sources struct {
	Clients
	// limiter limits how fast unchanged objects are examined.
	limiter *rate.Limiter
	log     zerolog.Logger
}

// openEntity is an entity workflow that runs: the object that its search attributes name, and since when this run of it
// runs.
type openEntity struct {
	contract.Object
	since time.Time
}

// openEntities returns the running entity workflows, by ID.
func (s *sources) openEntities(ctx context.Context, types []string) (map[string]openEntity, error) {
	open := map[string]openEntity{}
	err := temporalclient.EachRunning(ctx, s.Temporal, types, "",
		func(e *workflowpb.WorkflowExecutionInfo) error {
			a := e.GetSearchAttributes()
			open[e.GetExecution().GetWorkflowId()] = openEntity{
				Object: contract.Object{
					Namespace: searchAttribute(a, contract.SearchNamespace),
					Name:      searchAttribute(a, contract.SearchName),
					UID:       searchAttribute(a, contract.SearchUID),
				},
				since: e.GetStartTime().AsTime(),
			}
			return nil
		})
	return open, err
}

// isRunning reports whether a workflow runs. It describes the workflow rather than listing it: visibility lags under
// load, and sending an object again needlessly costs a workflow task.
func (s *sources) isRunning(ctx context.Context, workflow string) (bool, error) {
	last, err := s.lastRun(ctx, workflow)
	return last.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}

// lastRun returns what Temporal has of the last run of a workflow; nil: nothing.
func (s *sources) lastRun(ctx context.Context, workflow string) (*workflowpb.WorkflowExecutionInfo, error) {
	d, err := s.Temporal.DescribeWorkflowExecution(ctx, workflow, "")
	if notFound := new(serviceerror.NotFound); errors.As(err, &notFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describing workflow %s: %w", workflow, err)
	}
	return d.GetWorkflowExecutionInfo(), nil
}

// mostUnreadable is how many workflows in a row Temporal may fail to describe. A single one may be unreadable for good;
// several in a row mean that Temporal fails.
const mostUnreadable = 3

// unreadable counts the workflows in a row that Temporal could not describe.
type unreadable struct {
	log    zerolog.Logger
	failed int
}

// canSkip reports whether the resync can skip a workflow that could not be described, and returns err if that is one
// too many.
func (p *unreadable) canSkip(ctx context.Context, err error) (bool, error) {
	if err == nil {
		p.failed = 0
		return false, nil
	}
	if p.failed++; p.failed == mostUnreadable || ctx.Err() != nil {
		return false, err
	}
	p.log.Warn().Err(err).Msg("skipped a workflow that Temporal cannot describe")
	return true, nil
}

// searchAttribute returns the value of one search attribute; "": it has none.
func searchAttribute(attributes *commonpb.SearchAttributes, name string) string {
	p, ok := attributes.GetIndexedFields()[name]
	if !ok {
		return ""
	}
	var s string
	if err := converter.GetDefaultDataConverter().FromPayload(p, &s); err != nil {
		return ""
	}
	return s
}
