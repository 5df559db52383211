package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/workflows/contract"
)

// rareStories are of what happens rarely, and is done by activities that no other story calls: a VM that changes while
// its guest runs, and an entity of which somebody terminates what it remembers; replicas, migrations and drains that
// somebody meddles with; guests that have to end for a release.
func rareStories() []Scenario {
	return []Scenario{
		{Name: "changed-while-it-runs", Story: func(w *World) {
			up(w)
			memory := resource.MustParse("256Mi")
			w.change(func(m *kubevirt.VirtualMachine) { m.Spec.Template.Spec.Domain.Memory.Guest = &memory })
			w.Until(5*time.Minute, func() bool { return needsRestart(w.VM(vm)) })
			if w.fault == nil && (!needsRestart(w.VM(vm)) || w.Started[key] != 1) {
				w.breakf("the guest was started %d times, and its VM is to say that it needs a restart%s",
					w.Started[key], w.state())
			}
			w.Restart(vm)
		}, Want: func(w *World) error {
			if needsRestart(w.VM(vm)) {
				return fmt.Errorf("VM %s, which was restarted, says that it needs a restart", vm)
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
		}, Want: stopped(vm)},
		{Name: "replica-set-aside", Story: func(w *World) { grown(w); w.setAside() }, Want: asideRuns(2)},
		{Name: "migrate-force-complete", Options: Options{Guests: map[string]Guest{key: {Copies: 100 * time.Second}}},
			Story: func(w *World) {
				migrating(w, "copying")
				w.forceComplete()
				if w.fault == nil && w.Chaos == (Chaos{}) && w.Moved[key] == 0 {
					w.breakf("a person has asked for the end of the move, and it goes on")
				}
				w.Until(w.patience(), func() bool { // who was heard too early, or forgotten, asks again
					w.forceComplete()
					return w.Moved[key] > 0 || w.failedOnly()
				})
			}, Want: moved(1)},
		{Name: "migrate-entity-terminated", Options: Options{Guests: map[string]Guest{key: {Copies: 80 * time.Second}}},
			Story: func(w *World) { // for so long that another one finds it under way
				migrating(w, "copying")
				w.Terminate(contract.MigrationID(Namespace, "move-1"))
			}, Want: moved(1)},
		{Name: "migrate-instance-gone", Story: func(w *World) {
			up(w)
			w.Delete(vm)
			w.Until(w.patience(), func() bool { return gone(vm)(w) == nil })
			w.MigrateAgain(vm) // admission has seen the instance
		}, Want: func(w *World) error {
			if w.fault != nil && w.failedOnly() {
				return gone(vm)(w) // nobody knew yet that the instance was gone, or etcd was put back: it says so
			}
			if n := len(w.Migrations()); n > 0 {
				return fmt.Errorf("%d migrations are left of an instance that is gone: %s", n, w.failures())
			}
			return gone(vm)(w)
		}},
		{Name: "drain-of-one-marked-cancelled", Story: drainCancelled(func(w *World, node string) {
			w.askToLeave(vm, node)
		}), Want: notAsked},
		{Name: "workload-update-evicts", Options: Options{Updates: settings.WorkloadUpdates{Evict: true, Batch: 1}},
			Story: func(w *World) { up(w); w.Release() }, Want: updatedAnew},
	}
}

// change has a user change the VM.
func (w *World) change(how func(*kubevirt.VirtualMachine)) {
	w.tracef("user: change VM %s", vm)
	w.Edit(vm, how)
}

func needsRestart(m *kubevirt.VirtualMachine) bool {
	return m != nil && isTrue(m, kubevirt.VirtualMachineRestartRequired)
}

// follows wants the running instance to be placed as its VM says by now, and the guest to go on in its domain.
func follows(w *World) error {
	if v := w.VMI(vm); v == nil || v.Spec.NodeSelector[corev1.LabelHostname] != home {
		return fmt.Errorf("the instance does not follow its VM")
	}
	if needsRestart(w.VM(vm)) {
		return fmt.Errorf("VM %s needs a restart for what its instance can follow", vm)
	}
	return goesOn(w)
}
