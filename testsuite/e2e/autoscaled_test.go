//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestReplicaSetAutoscaled lets Kubernetes' own autoscaler change the number of replicas through the scale subresource.
// It needs no metrics to keep a set within its bounds.
func TestReplicaSetAutoscaled(t *testing.T) {
	suite.TakeTurn(t, 4)
	r := newReplicas(t, newNamespace(t), "herd", 1)
	bounds := func(low, high int) {
		t.Helper()
		apply(t, fmt.Sprintf(`apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: herd, namespace: %s}
spec:
  scaleTargetRef: {apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, name: herd}
  minReplicas: %d
  maxReplicas: %d
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
`, r.namespace, low, high))
	}
	bounds(2, 3)
	r.until(2)
	bounds(1, 1)
	r.until(1)
	require.Contains(t, r.kubectl("get", "events", "--field-selector=reason=SuccessfulRescale", "-o", "name"),
		"event/herd")
	r.kubectl("delete", "hpa", "herd")
	r.kubectl("delete", "vmirs", "herd", "--cascade=foreground", "--timeout=110s")
}
