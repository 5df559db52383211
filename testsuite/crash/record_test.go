//go:build crash

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// recordedToo returns the scenarios of the kill test that are recorded, too.
func recordedToo() []string {
	return []string{"stop", "restart", "crash loop", "scale", "continue-as-new in a scale"}
}

// TestRecord plays migrations, a drain, and scenarios of VMs and replica sets undisturbed, and writes the histories of
// the migrations, the queue that admitted them, the drain, the VMs and the sets for testsuite/replay.
// VIRTFLOW_CRASH_RECORD names the release. Those of real nodes come from make record-histories; these need no cluster.
func TestRecord(t *testing.T) {
	release := os.Getenv("VIRTFLOW_CRASH_RECORD")
	if release == "" {
		t.Skip("VIRTFLOW_CRASH_RECORD names no release")
	}
	temporal := startTemporal(t)
	l := newLane(t, temporal, "recorded")
	l.startWorker(newWorker(t))
	more := slices.DeleteFunc(scenarios(), func(sc scenario) bool { return !slices.Contains(recordedToo(), sc.name) })
	for _, sc := range append([]scenario{
		{"migrate", running, (*story).migrate, (*story).moved, counts{1, 2, 1}, false},
		{"migrate to nowhere", running, (*story).cancelled, (*story).stayed, counts{1, 2, 1}, false},
		{"drain", running, (*story).evict, (*story).drained, counts{1, 2, 1}, false},
	}, more...) {
		s, summary, err := l.play(sc, slug(sc.name), func() {}, func(int) {}, "")
		require.NoError(t, err, "%s: %s\n%s\n%s", sc.name, s.tail(60), s.stateError(), l.log())
		t.Logf("%s: %s", sc.name, summary)
	}
	query := fmt.Sprintf("WorkflowType IN ('%s', '%s', '%s', '%s', '%s')", contract.WorkflowMigration,
		contract.WorkflowAdmission, contract.WorkflowDrain, contract.WorkflowVM, contract.WorkflowReplicaSet)
	until(t, time.Minute, "Temporal lists all that has ended", func() error {
		n, err := l.temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: l.name, Query: query + " AND ExecutionStatus = 'Completed'"})
		if err == nil && n.GetCount() < 12 {
			err = fmt.Errorf("%d", n.GetCount())
		}
		return err
	})
	file := func(name string) string { return filepath.Join(temporal.tls, name) }
	t.Log(run(t, root(t), "go", "run", "-trimpath", "-buildvcs=false", "./testsuite/replay/record",
		"--release", release, "--query", query, "--temporal-address", temporal.address, "--temporal-namespace", l.name,
		"--temporal-tls-server-name", "localhost", "--temporal-tls-ca", file("ca.crt"),
		"--temporal-tls-cert", file("client.crt"), "--temporal-tls-key", file("client.key")))
}

// cancelled requests a migration, and deletes it while its target's pod is unschedulable.
func (s *story) cancelled() error {
	s.machine.setFull(s.namespace, true)
	defer s.machine.setFull(s.namespace, false)
	if err := s.migrate(); err != nil {
		return err
	}
	if err := await(patience, func() error {
		m := kube.Get[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace, vmName)
		if m == nil || m.Status.Phase != kubevirt.MigrationScheduling {
			return s.stateError()
		}
		return nil
	}); err != nil {
		return err
	}
	return kube.Remove[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace, vmName, nil)
}

// stayed checks that the guest is where it was, and nothing of the migration is left.
func (s *story) stayed() error {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	if vmi == nil || vmi.Status.NodeName != nodeName || len(kube.List[corev1.Pod](s.kube, s.namespace)) != 1 ||
		len(kube.List[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace)) > 0 {
		return s.stateError()
	}
	return s.checkRunning(1, 1)
}
