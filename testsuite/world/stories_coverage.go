package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
)

// coverageStories call the activities that no other story calls: a VM changes while its guest runs; an entity's
// workflow is terminated; users interfere with replicas, migrations and drains; guests are evicted for a release.
func coverageStories() []Scenario {
	return []Scenario{
		{Name: "changed-while-it-runs", Story: func(w *World) {
			up(w)
			memory := resource.MustParse("256Mi")
			w.change(func(m *kubevirt.VirtualMachine) { m.Spec.Template.Spec.Domain.Memory.Guest = &memory })
			w.Until(5*time.Minute, func() bool { return needsRestart(w.VM(vm)) })
			if w.fault == nil && (!needsRestart(w.VM(vm)) || w.Started[key] != 1) {
				w.breakf("the guest was started %d times, and its VM must have the condition RestartRequired%s",
					w.Started[key], w.state())
			}
			w.Restart(vm)
		}, Want: func(w *World) error {
			if needsRestart(w.VM(vm)) {
				return fmt.Errorf("VM %s, which was restarted, has the condition RestartRequired", vm)
			}
			if v := w.VMI(vm); v != nil && v.Spec.Domain.Memory.Guest.String() != "256Mi" {
				return fmt.Errorf("the instance has %s of memory", v.Spec.Domain.Memory.Guest)
			}
			return restarted(w)
		}},
		{Name: "instance-follows-its-machine", Options: Options{LiveUpdate: true}, Story: func(w *World) {
			up(w)
			w.change(func(m *kubevirt.VirtualMachine) {
				m.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: home}
			})
		}, Want: follows},
		{Name: "machine-entity-terminated", Story: func(w *World) {
			up(w)
			w.Terminate(contract.VMID(Namespace, vm))
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: wantStopped(vm)},
		{Name: "replica-set-aside", Story: func(w *World) { grown(w); w.relabelInstance() }, Want: releasedRuns(2)},
		{Name: "migrate-force-complete", Options: Options{Guests: map[string]Guest{key: {Copies: 100 * time.Second}}},
			Story: func(w *World) {
				migrating(w, "copying")
				w.forceComplete()
				if w.fault == nil && w.Chaos == (Chaos{}) && w.Moved[key] == 0 {
					w.breakf("force-complete was requested, and the migration continues")
				}
				w.Until(w.patience(), func() bool { // a request that came too early, or was forgotten, is repeated
					w.forceComplete()
					return w.Moved[key] > 0 || w.haveAllFailed()
				})
			}, Want: moved(1)},
		{Name: "migrate-entity-terminated", Options: Options{Guests: map[string]Guest{key: {Copies: 80 * time.Second}}},
			Story: func(w *World) { // longer than it takes until another entity finds it under way
				migrating(w, "copying")
				w.Terminate(contract.MigrationID(Namespace, "move-1"))
			}, Want: moved(1)},
		{Name: "migrate-instance-gone", Story: func(w *World) {
			up(w)
			w.Delete(vm)
			w.Until(w.patience(), func() bool { return wantGone(vm)(w) == nil })
			w.MigratePastAdmission(vm) // past admission, which refuses it for an absent instance
		}, Want: func(w *World) error {
			if w.fault != nil && w.haveAllFailed() {
				return wantGone(vm)(w) // the deletion was not observed yet, or etcd was put back
			}
			if n := len(w.Migrations()); n > 0 {
				return fmt.Errorf("%d migrations are left of an instance that is gone: %s", n, w.failures())
			}
			return wantGone(vm)(w)
		}},
		{Name: "drain-of-one-marked-cancelled", Story: drainCancelled(func(w *World, node string) {
			w.markForEvacuation(vm, node)
		}), Want: notMarked},
		{Name: "secret-late", Story: func(w *World) {
			w.NoSecret = true
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(time.Minute)
			w.NoSecret = false
		}, Want: wantRunning(vm)},
		{Name: "workload-update-evicts", Options: Options{Updates: settings.WorkloadUpdates{Evict: true, Batch: 1}},
			Story: func(w *World) { up(w); w.Release() }, Want: updatedByEviction},
	}
}

// change changes the VM as a user.
func (w *World) change(how func(*kubevirt.VirtualMachine)) {
	w.tracef("user: change VM %s", vm)
	w.Edit(vm, how)
}

func needsRestart(m *kubevirt.VirtualMachine) bool {
	return m != nil && hasCondition(m, kubevirt.VirtualMachineRestartRequired)
}

// follows wants the running instance's placement to match its VM, and the guest to run in the same domain.
func follows(w *World) error {
	if v := w.VMI(vm); v == nil || v.Spec.NodeSelector[corev1.LabelHostname] != home {
		return fmt.Errorf("the instance does not follow its VM")
	}
	if needsRestart(w.VM(vm)) {
		return fmt.Errorf("VM %s needs a restart for what its instance can follow", vm)
	}
	return runsInSameDomain(w)
}
