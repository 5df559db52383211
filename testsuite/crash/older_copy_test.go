//go:build crash

package crash

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/vm"
)

// TestOlderCopies: a terminated entity is started again within a minute (plus the time that this machine needs), and a
// Temporal that has lost the fencing token is detected as an older copy: a new epoch begins on both sides.
func TestOlderCopies(t *testing.T) {
	l := newLane(t, startTemporal(t), "older-copies")
	l.startWorker(newWorker(t))
	entity := contract.NodeID(nodeName)
	var run string
	until(t, 2*time.Minute, "the node's entity runs", func() (err error) {
		run, err = l.openRun(entity, "")
		return err
	})
	until(t, 2*time.Minute, "the first epoch begins", func() error { return l.epoch(1) })
	require.NoError(t, l.temporal.TerminateWorkflow(t.Context(), entity, "", "by hand"))
	began := time.Now()
	until(t, 90*time.Second, "it runs again", func() error { _, err := l.openRun(entity, run); return err })
	t.Logf("the terminated entity ran again after %s", time.Since(began).Round(time.Second))

	run, err := l.openRun(contract.FencingTokenID, "")
	require.NoError(t, err)
	require.NoError(t, l.temporal.TerminateWorkflow(t.Context(), contract.FencingTokenID, "", "by hand"))
	until(t, 90*time.Second, "a new epoch begins", func() error { return l.epoch(2) })
	_, err = l.openRun(contract.FencingTokenID, run)
	require.NoError(t, err)
}

// TestOlderCopyPutBack: Temporal's databases are put back to a copy from before a halted VM was started. Its guest runs
// on, the VM's entity receives the new epoch and the present state, and the VM can be stopped: within the same two
// minutes.
func TestOlderCopyPutBack(t *testing.T) {
	server := startTemporal(t)
	l := newLane(t, server, "put-back")
	l.startWorker(newWorker(t))
	s := &story{lane: l, namespace: "put-back"}
	_, err := kube.Put(l.kube, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	require.NoError(t, err)
	until(t, healLimit, "the first epoch begins", func() error { return l.epoch(1) })
	require.NoError(t, s.createVM(kubevirt.RunStrategyHalted))
	until(t, healLimit, "the VM is stopped", s.checkStopped)

	older := filepath.Join(t.TempDir(), "older")
	server.copyDatabase(t, older)
	copied := l.token()
	require.NoError(t, s.strategy(kubevirt.RunStrategyAlways))
	until(t, healLimit, "the VM runs", func() error { return s.checkRunning(1, 1) })
	until(t, healLimit, "the token is advanced after the copy", func() error {
		if l.token() == copied {
			return fmt.Errorf("it is still %s", copied)
		}
		return l.epoch(1)
	})

	server.putBack(t, older)
	began := time.Now()
	until(t, healLimit, "the VM's entity has the present state", func() error {
		require.NoError(t, s.untouched())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		answer, err := l.temporal.QueryWorkflow(ctx, contract.VMID(s.namespace, vmName), "", contract.QueryState)
		if err != nil {
			return err
		}
		var state vm.State // a new value each time: decoding does not reset absent fields
		if err := answer.Get(&state); err != nil {
			return err
		}
		if state.Epoch < 2 || state.Stale || state.VMI == nil || state.Open != nil {
			return fmt.Errorf("its state is %s", inJSON("", state))
		}
		return errors.Join(l.epoch(2), s.checkRunning(1, 1))
	})
	knew := time.Since(began)
	for range 200 { // time for a decision from the older state
		require.NoError(t, s.untouched())
		time.Sleep(25 * time.Millisecond)
	}
	require.NoError(t, s.strategy(kubevirt.RunStrategyHalted))
	until(t, healLimit-time.Since(began), "the VM stops on request", s.checkStopped)
	require.Equal(t, counts{1, 1, 1}, l.machine.total(s.namespace))
	require.Empty(t, l.broken())
	t.Logf("the entity had the present state %s after Temporal answered, and the VM was stopped after %s",
		knew.Round(time.Second), time.Since(began).Round(time.Second))
}

// untouched checks that there is still one instance, with the guest that was started in it.
func (s *story) untouched() error {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	made, domains := s.machine.total(s.namespace), s.machine.domains(s.namespace)
	if vmi == nil || vmi.DeletionTimestamp != nil || domains != 1 || made != (counts{1, 1, 1}) {
		return fmt.Errorf("the guest was affected: %d domains run, %+v were created\n%w\n%s", domains, made,
			s.stateError(),
			s.log())
	}
	return nil
}

// openRun returns the open run of a workflow, unless it is that one.
func (l *lane) openRun(id, not string) (run string, err error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
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

// token returns Kubernetes' side of the fencing token, as stored.
func (l *lane) token() string {
	lease := kube.Get[coordinationv1.Lease](l.kube, systemNamespace, restore.LeaseName)
	if lease == nil {
		return ""
	}
	return fmt.Sprint(lease.Annotations)
}

// epoch fails unless that is the epoch.
func (l *lane) epoch(want int64) error {
	clients, err := kubernetes.NewForConfig(l.kube.Config())
	if err != nil {
		return err
	}
	got, err := restore.New(l.temporal, clients.CoordinationV1().Leases(systemNamespace)).Epoch(l.t.Context())
	if err == nil && got != want {
		err = fmt.Errorf("epoch %d", got)
	}
	return err
}
