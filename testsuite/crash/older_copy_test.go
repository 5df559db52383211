//go:build crash

package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/workflows/contract"
)

// TestOlderCopies: an entity that somebody terminated is started again within a minute (and what this machine needs),
// and a Temporal that has lost the fencing token is noticed as an older copy: a new epoch begins on both sides.
func TestOlderCopies(t *testing.T) {
	l := newLane(t, startTemporal(t), "older-copies")
	l.startWorker(newWorker(t))
	clients, err := kubernetes.NewForConfig(l.kube.Config())
	require.NoError(t, err)
	fence := fencing.New(l.temporal, clients.CoordinationV1().Leases(systemNamespace))
	runs := func(id, not string) (run string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		d, err := l.temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return "", err
		}
		info := d.GetWorkflowExecutionInfo()
		run = info.GetExecution().GetRunId()
		if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || run == not {
			return "", fmt.Errorf("%s: run %s is %s", id, run, info.GetStatus())
		}
		return run, nil
	}
	epoch := func(want int64) func() error {
		return func() error {
			got, err := fence.Epoch(t.Context())
			if err == nil && got != want {
				err = fmt.Errorf("epoch %d", got)
			}
			return err
		}
	}
	entity := contract.NodeID(nodeName)
	var run string
	until(t, 2*time.Minute, "the node's entity runs", func() (err error) { run, err = runs(entity, ""); return err })
	until(t, 2*time.Minute, "the first epoch begins", epoch(1))
	require.NoError(t, l.temporal.TerminateWorkflow(t.Context(), entity, "", "by hand"))
	began := time.Now()
	until(t, 90*time.Second, "it runs again", func() error { _, err := runs(entity, run); return err })
	t.Logf("the terminated entity ran again after %s", time.Since(began).Round(time.Second))

	run, err = runs(contract.FencingTokenID, "")
	require.NoError(t, err)
	require.NoError(t, l.temporal.TerminateWorkflow(t.Context(), contract.FencingTokenID, "", "by hand"))
	until(t, 90*time.Second, "a new epoch begins", epoch(2))
	_, err = runs(contract.FencingTokenID, run)
	require.NoError(t, err)
}
