//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// rebalance is the taint that the descheduler acts on.
const rebalance = "e2e.virtflow.io/rebalance"

// TestDescheduler: the descheduler's own program requests the eviction of a guest's pod from a tainted node, once. It
// takes the refusal for an eviction in the background, and waits for it as long as the pod is marked. The guest moves.
func TestDescheduler(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := newMachine(t, "rebalanced", "Always", "      evictionStrategy: LiveMigrate")
	vmi := m.untilBooted()
	node, pod := vmi.Status.NodeName, m.pod()
	slowMigrations(t, m.namespace)
	t.Cleanup(func() { _, _ = try("taint", "node", node, rebalance+"-") })
	kubectl(t, "taint", "node", node, rebalance+":NoSchedule")

	d := startDescheduler(t, m.namespace)
	until(t, time.Minute, "the pod is marked as being evicted", func() error {
		out, err := try("-n", m.namespace, "get", "pod", pod, "-o",
			`jsonpath={.metadata.annotations.descheduler\.alpha\.kubernetes\.io/eviction-in-progress}`)
		if err == nil && out != contract.EvictedBy {
			err = fmt.Errorf("the annotation is %q; the descheduler's log ends with: %s", out, tail(d.String(), 5))
		}
		return err
	})
	v, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, node, v.Status.EvacuationNodeName)
	require.Equal(t, "descheduler", v.Annotations[kubevirt.EvictionSourceAnnotation])
	until(t, migrationTime, "the descheduler waits for the eviction that it has requested", func() error {
		if !strings.Contains(d.String(), "Eviction in background already requested (ignoring)") {
			return fmt.Errorf("its log ends with: %s", tail(d.String(), 5))
		}
		return nil
	})
	until(t, migrationTime, "the guest has moved, and the eviction is over", func() error {
		if v, err = m.vmi(); err != nil {
			return err
		}
		if v.Status.NodeName == node || v.Status.EvacuationNodeName != "" {
			return fmt.Errorf("it is on %s, evacuated from %q", v.Status.NodeName, v.Status.EvacuationNodeName)
		}
		return nil
	})
	require.Equal(t, vmi.UID, v.UID)
	require.Len(t, m.migrations(), 1)
	require.Equal(t, 1, strings.Count(d.String(), "Eviction in background assumed"), d.String())
	require.NotContains(t, d.String(), "Error evicting pod")
}

// startDescheduler runs the descheduler every few seconds until the test ends, for the pods of a namespace that do not
// tolerate a taint of their node. It returns what it writes.
func startDescheduler(t *testing.T, namespace string) fmt.Stringer {
	t.Helper()
	program := filepath.Join(built(t, "descheduler"), "descheduler")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, fmt.Appendf(nil, `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: rebalance
  pluginConfig:
  - name: DefaultEvictor
    args: {podProtections: {defaultDisabled: [PodsWithLocalStorage]}}
  - name: RemovePodsViolatingNodeTaints
    args: {namespaces: {include: [%s]}, includedTaints: [%s]}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
`, namespace, rebalance), 0o600))
	var log output
	cmd := exec.CommandContext(t.Context(), program, "--kubeconfig="+os.Getenv("KUBECONFIG"),
		"--policy-config-file="+policy, "--descheduling-interval=3s", "--feature-gates=EvictionsInBackground=true",
		"--disable-metrics", "--bind-address=127.0.0.1", "--v=3")
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // the test's context has ended it
	})
	return &log
}
