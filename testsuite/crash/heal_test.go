//go:build crash

package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// healLimit is the limit until everything works again after Temporal answers again, without a person.
const healLimit = 2 * time.Minute

// TestDatabaseLost: the deployed control worker gets an empty database in the place of Temporal's. It registers the
// namespace again and runs workflows with their search attributes again, and a condition of the KubeVirt object has
// shown administrators that Temporal was away.
func TestDatabaseLost(t *testing.T) {
	s := startTemporal(t)
	l := newLane(t, s, "lost")
	l.startWorker(newWorker(t))
	until(t, time.Minute, "a workflow runs", func() error { return l.runs("before") })
	until(t, time.Minute, "the condition", func() error { return l.available(corev1.ConditionTrue) })

	end(s.process)
	until(t, healLimit, "the condition shows that Temporal is away", func() error {
		return l.available(corev1.ConditionFalse)
	})
	s.loseDatabase(t)
	began := time.Now()
	until(t, healLimit, "a workflow runs in the new database", func() error { return l.runs("after") })
	until(t, healLimit, "the condition", func() error { return l.available(corev1.ConditionTrue) })
	t.Logf("it works again %s after Temporal answers", time.Since(began).Round(time.Second))
	have, err := l.temporal.OperatorService().
		ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: l.name})
	require.NoError(t, err)
	for _, name := range contract.SearchAttributes() {
		require.Contains(t, have.GetCustomAttributes(), name)
	}

	// Lost again at once: no process has observed that Temporal was away.
	s.loseDatabase(t)
	until(t, healLimit, "a workflow runs in the third database", func() error { return l.runs("again") })
}

// runs checks that the control worker polls a node's entity and answers for it.
func (l *lane) runs(node string) error {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
	defer cancel()
	id := contract.NodeID(node)
	_, err := l.temporal.SignalWithStartWorkflow(ctx, id, contract.SignalObserveNode,
		contract.NodeObservation{UID: node},
		client.StartWorkflowOptions{ID: id,
			TaskQueue: contract.ControlTaskQueue}, contract.WorkflowNode, contract.EntityInput{Name: node})
	if err != nil {
		return err
	}
	_, err = l.temporal.QueryWorkflow(ctx, id, "", contract.QueryState)
	return err
}

// available checks that the KubeVirt object's condition Available has a status.
func (l *lane) available(want corev1.ConditionStatus) error {
	kv := kube.Get[kubevirt.KubeVirt](l.kube, systemNamespace, settings.ObjectName)
	if kv == nil {
		return fmt.Errorf("there is no KubeVirt object")
	}
	for _, c := range kv.Status.Conditions {
		if c.Type == kubevirt.KubeVirtConditionAvailable && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("the conditions are %v", kv.Status.Conditions)
}
