//go:build crash

package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// mass is how many VMs one tenant starts at once, and then stops; overtaken is how many of those another tenant's
// single stop may wait for. Without fairness keys it waits for a quarter to a third. begun is how many of the many may
// be begun and incomplete: 194 had an instance that did not run yet when a namespace had a single fairness key; and
// without an order all stops had begun.
const mass, overtaken, begun = 200, mass / 8, mass / 4

// TestNamespacesTakeTurns: one namespace has requested many starts or stops at once, most of which wait in Temporal's
// task queue. The stop of a VM of another namespace does not wait behind them, and requests that have begun do not wait
// behind those that have not.
func TestNamespacesTakeTurns(t *testing.T) {
	l := newLane(t, startTemporal(t), "fairness")
	program := newWorker(t)
	l.mu.Lock()
	// Few tasks at a time, so that the others wait in Temporal.
	l.workers = append(l.workers, l.launch("control-worker", program, "--launcher-image",
		"localhost/virtflow/launcher:dev",
		"--max-concurrent", "4"))
	l.mu.Unlock()
	single := &story{lane: l, follower: &follower{ctx: t.Context()}, namespace: "single"}
	many := &story{lane: l, follower: single.follower, namespace: "many"}
	for _, s := range []*story{single, many} {
		_, err := kube.Put(l.kube, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
		require.NoError(t, err)
	}
	require.NoError(t, single.createVM(kubevirt.RunStrategyAlways))
	until(t, patience, "the single VM runs", func() error { return single.checkRunning(1, 1) })
	alone := stops(t, single)
	require.NoError(t, single.strategy(kubevirt.RunStrategyAlways))
	until(t, patience, "the single VM runs again", func() error { return single.checkRunning(2, 1) })

	always := kubevirt.RunStrategyAlways
	for i := range mass {
		_, err := kube.Put(l.kube, &kubevirt.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: many.namespace, Name: fmt.Sprintf("%s-%d", vmName, i)},
			Spec:       kubevirt.VirtualMachineSpec{RunStrategy: &always, Template: many.template()},
		})
		require.NoError(t, err)
	}
	started := func() int { return l.machine.total(many.namespace).domains }
	until(t, patience, "the first of many run", func() error {
		if started() == 0 {
			return fmt.Errorf("none runs")
		}
		return nil
	})
	before := started()
	require.Less(t, before, mass/2, "most must still wait when the stop is requested")
	beside := stops(t, single)
	passed := started() - before
	suite.PrintFigures(t, "fairness: a stop beside %d starts of another namespace waited for %d of them (%d were done); "+
		"%.1f times as long as alone", mass, passed, before, beside.Seconds()/alone.Seconds())
	require.LessOrEqual(t, passed, overtaken, "starts of another namespace that the stop waited for")
	most := 0
	until(t, 5*time.Minute, "all of the many run", func() error {
		made := l.machine.total(many.namespace)
		most = max(most, made.instances-made.domains)
		if n := l.machine.domains(many.namespace); n < mass {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	suite.PrintFigures(t, "fairness: of %d starts at most %d had an instance that did not run yet", mass, most)
	require.LessOrEqual(t, most, begun, "starts that had an instance and waited behind others")
	require.NoError(t, single.strategy(kubevirt.RunStrategyAlways))
	until(t, patience, "the single VM runs once more", func() error { return single.checkRunning(3, 1) })
	halted := kubevirt.RunStrategyHalted
	for i := range mass {
		require.NoError(t, persist(func() error {
			_, err := kube.Edit(l.kube, many.namespace, fmt.Sprintf("%s-%d", vmName, i), "",
				func(vm *kubevirt.VirtualMachine) { vm.Spec.RunStrategy = &halted })
			return err
		}))
	}
	left := l.machine.domains(many.namespace)
	require.Greater(t, left, mass/2, "most must still wait when the stop is requested")
	beside = stops(t, single)
	passed = left - l.machine.domains(many.namespace)
	suite.PrintFigures(t, "fairness: a stop beside %d stops of another namespace waited for %d of %d; %.1f times as long as "+
		"alone", mass, passed, left, beside.Seconds()/alone.Seconds())
	require.LessOrEqual(t, passed, overtaken, "stops of another namespace that the stop waited for")
	stopping := 0
	for _, vm := range kube.List[kubevirt.VirtualMachine](l.kube, many.namespace) {
		if vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopping {
			stopping++
		}
	}
	suite.PrintFigures(t, "fairness: of %d stops %d had been begun and were not done", mass, stopping)
	require.LessOrEqual(t, stopping, begun, "stops that had begun and waited behind others")
	require.Empty(t, l.broken())
}

// stops halts a VM, and returns how long it took until it was stopped.
func stops(t *testing.T, s *story) time.Duration {
	t.Helper()
	began := time.Now()
	require.NoError(t, s.strategy(kubevirt.RunStrategyHalted))
	until(t, patience, "it has stopped", s.checkStopped)
	return time.Since(began)
}
