package world

import (
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// Handovers returns stories about instances that change or lose their owner while something is under way. They vary the
// order of events rather than failures, so they are not part of the fault matrix.
func Handovers() []Scenario {
	var all []Scenario
	for _, d := range []time.Duration{0, 150, 700, 1000} {
		d *= time.Millisecond
		all = append(all,
			Scenario{Name: "delete-orphaning-at-" + d.String(), Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				if d > 0 {
					w.Sleep(d)
				}
				w.DeleteOrphaning(vm)
			}, Want: orphanedOrGone},
			Scenario{Name: "delete-foreground-at-" + d.String(), Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				if d > 0 {
					w.Sleep(d)
				}
				w.DeleteForeground(vm)
			}, Want: wantGone(vm)},
		)
	}
	for _, d := range []time.Duration{0, 5, 20} {
		d *= time.Millisecond
		all = append(all, Scenario{Name: "replica-set-aside-and-scaled-down-" + d.String(), Story: func(w *World) {
			grown(w)
			w.Scale(set, 0)
			if d > 0 {
				w.Sleep(d)
			}
			w.relabelInstance()
		}, Want: func(w *World) error {
			if len(w.domains) > 1 || w.victim != "" && w.Domains(w.victim) != 1 {
				return fmt.Errorf("%q was released before its end; %d domains run", w.victim, len(w.domains))
			}
			return scaled(0)(w)
		}})
	}
	for _, d := range []time.Duration{0, 20, 100, 1000} {
		d *= time.Millisecond
		all = append(all, Scenario{Name: "adopted-and-released-" + d.String(), Story: func(w *World) {
			up(w)
			w.DeleteOrphaning(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			if d > 0 {
				w.Sleep(d)
			}
			w.DeleteOrphaning(vm)
		}, Want: orphanedRuns})
	}
	return append(all,
		Scenario{Name: "delete-foreground", Story: func(w *World) { up(w); w.DeleteForeground(vm) },
			Want: wantGone(vm)},
		Scenario{Name: "delete-foreground-and-make-again", Story: func(w *World) {
			up(w)
			w.DeleteForeground(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: restarted},
		Scenario{Name: "instance-deleted-alone", Story: func(w *World) {
			up(w)
			w.DeleteInstanceOrphaning(vm)
		}, Want: restarted},
		Scenario{Name: "orphaned-instance-goes", Story: func(w *World) {
			up(w)
			w.DeleteOrphaning(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.DeleteInstance(vm)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: restarted},
		Scenario{Name: "orphaned-instance-goes-later", Story: func(w *World) {
			up(w)
			w.DeleteOrphaning(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.DeleteInstance(vm)
		}, Want: restarted},
		Scenario{Name: "instance-disowned-powers-off", Story: func(w *World) {
			up(w)
			w.disown()
			w.Sleep(time.Second)
			if l := w.Launcher(vm); l != nil {
				l.powersOff()
			}
		}, Want: restarted},
		Scenario{Name: "instance-disowned-stop", Story: func(w *World) {
			up(w)
			w.disown()
			w.Sleep(time.Second)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: wantStopped(vm)},
		Scenario{Name: "torn-out-and-made-again", Story: func(w *World) {
			up(w)
			w.removeMachineFinalizers(vm)
			w.Delete(vm)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: wantRunning(vm)},
		Scenario{Name: "torn-out-alone-and-made-again", Story: func(w *World) {
			up(w)
			w.removeMachineFinalizers(vm)
			w.DeleteOrphaning(vm)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: runsInSameDomain},
		Scenario{Name: "torn-out-alone-while-starting-and-made-again", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(700 * time.Millisecond)
			w.removeMachineFinalizers(vm)
			w.DeleteOrphaning(vm)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: runsInSameDomain},
		Scenario{Name: "instance-torn-out", Story: func(w *World) {
			up(w)
			w.removeInstanceFinalizers(vm)
			w.DeleteInstance(vm)
		}, Want: restarted},
		Scenario{Name: "instance-torn-out-alone", Story: func(w *World) {
			up(w)
			w.removeInstanceFinalizers(vm)
			w.DeleteInstanceOrphaning(vm)
		}, Want: restarted},
		Scenario{Name: "instance-made-again", Story: func(w *World) {
			w.CreateInstance(vm)
			w.Until(w.patience(), func() bool { return wantInstanceRunning(vm)(w) == nil })
			w.DeleteInstance(vm)
			w.Until(w.patience(), func() bool { return w.VMI(vm) == nil })
			w.CreateInstance(vm)
		}, Want: wantInstanceRunning(vm)},
		Scenario{Name: "instance-torn-out-and-made-again", Story: func(w *World) {
			w.CreateInstance(vm)
			w.Until(w.patience(), func() bool { return wantInstanceRunning(vm)(w) == nil })
			w.removeInstanceFinalizers(vm)
			w.DeleteInstance(vm)
			w.CreateInstance(vm)
		}, Want: wantInstanceRunning(vm)},
		Scenario{Name: "instance-disowned-delete", Story: func(w *World) {
			up(w)
			w.disown()
			w.Sleep(time.Second)
			w.Delete(vm)
		}, Want: wantGone(vm)},
		Scenario{Name: "instance-disowned-delete-orphaning", Story: func(w *World) {
			up(w)
			w.disown()
			w.Sleep(time.Second)
			w.DeleteOrphaning(vm)
		}, Want: orphanedRuns},
		Scenario{Name: "namespace-deleted", Story: func(w *World) { up(w); w.deleteNamespace() }, Want: wantGone(vm)},
		Scenario{Name: "namespace-deleted-while-starting", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(400 * time.Millisecond)
			w.deleteNamespace()
		}, Want: wantGone(vm)},
		Scenario{Name: "set-deleted-orphaning", Story: func(w *World) {
			grown(w)
			w.DeleteSetOrphaning(set)
		}, Want: setOrphaned(2)},
		Scenario{Name: "set-deleted-orphaning-while-growing", Story: func(w *World) {
			w.CreateSet(set, 2)
			w.Sleep(600 * time.Millisecond)
			w.DeleteSetOrphaning(set)
		}, Want: func(w *World) error {
			if w.Set(set) != nil || len(w.domains) > 2 {
				return fmt.Errorf("replica set %s is there, or too many domains: %d", set, len(w.domains))
			}
			return nil
		}},
		Scenario{Name: "set-deleted-orphaning-and-made-again", Story: func(w *World) {
			grown(w)
			w.DeleteSetOrphaning(set)
			w.CreateSet(set, 2)
		}, Want: keptDomains(2)},
		Scenario{Name: "set-deleted-orphaning-and-made-again-later", Story: func(w *World) {
			grown(w)
			w.DeleteSetOrphaning(set)
			w.Sleep(time.Minute)
			w.CreateSet(set, 2)
		}, Want: keptDomains(2)},
		Scenario{Name: "set-scaled-down-deleted-alone-and-made-again", Story: func(w *World) {
			grown(w)
			w.Scale(set, 0)
			w.Sleep(2 * time.Millisecond)
			w.DeleteSetOrphaning(set)
			w.CreateSet(set, 2)
		}, Want: scaled(2)},
	)
}

// orphanedOrGone wants the VM to be gone, and its instance to run on or to be gone completely.
func orphanedOrGone(w *World) error {
	if w.VM(vm) == nil && w.VMI(vm) != nil {
		return orphanedRuns(w)
	}
	return wantGone(vm)(w)
}

// setOrphaned wants the set to be gone, and its instances to run in the domains that they had.
func setOrphaned(n int) func(*World) error {
	return func(w *World) error {
		if w.Set(set) != nil || len(w.domains) != n || starts(w) != n {
			return fmt.Errorf("replica set %s must be deleted while its guests keep running: %d domains, "+
				"%d starts", set, len(w.domains), starts(w))
		}
		for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
			if v.DeletionTimestamp != nil || len(v.OwnerReferences) > 0 {
				return fmt.Errorf("instance %s is not orphaned", v.Name)
			}
		}
		return nil
	}
}

// keptDomains wants the set to have so many instances, in the first domains that were started.
func keptDomains(n int) func(*World) error {
	return func(w *World) error {
		if s := starts(w); s != n {
			return fmt.Errorf("%d domains were started, wanted are the first %d", s, n)
		}
		return scaled(n)(w)
	}
}

// releasedRuns wants the released instance to run on, besides so many of the set.
func releasedRuns(n int) func(*World) error {
	return func(w *World) error {
		if w.Started[w.victim] != 1 || w.Domains(w.victim) != 1 || len(w.domains) != n+1 {
			return fmt.Errorf("%s, which the set released, was started %d times, %d domains run", w.victim,
				w.Started[w.victim], len(w.domains))
		}
		return scaled(n)(w)
	}
}

func starts(w *World) int {
	n := 0
	for s := range maps.Values(w.Started) {
		n += s
	}
	return n
}

// DeleteForeground deletes a VM, which stays until its dependents are gone.
func (w *World) DeleteForeground(name string) {
	w.tracef("user: delete VM %s --cascade=foreground", name)
	w.userError(kube.Foreground[kubevirt.VirtualMachine](w.Kube, Namespace, name))
}

// DeleteSetOrphaning deletes a replica set and orphans its instances.
func (w *World) DeleteSetOrphaning(name string) {
	w.tracef("user: delete replica set %s --cascade=orphan", name)
	w.userError(kube.Orphan[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace, name))
}

// DeleteInstanceOrphaning deletes a VMI and orphans its dependents: its pod, and a Secret, which stays.
func (w *World) DeleteInstanceOrphaning(name string) {
	w.tracef("user: delete VMI %s --cascade=orphan", name)
	w.noteOrphans("secrets/")
	w.userError(kube.Orphan[kubevirt.VirtualMachineInstance](w.Kube, Namespace, name))
}

// noteOrphans records that the present objects of a kind have no owner any more that would take them along.
func (w *World) noteOrphans(prefix string) {
	for _, name := range w.Kube.Names() {
		if strings.HasPrefix(name, prefix) {
			w.orphans[name] = true
		}
	}
}

// disown removes the owner reference from an instance. Its VM stays.
func (w *World) disown() {
	w.tracef("user: remove the ownerReferences of VMI %s", vm)
	_, err := kube.Edit(w.Kube, Namespace, vm, "", func(v *kubevirt.VirtualMachineInstance) { v.OwnerReferences = nil })
	w.userError(err)
}

// removeMachineFinalizers removes all finalizers of a VM, as an impatient user does.
func (w *World) removeMachineFinalizers(name string) {
	w.tracef("user: remove the finalizers of VM %s", name)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(v *kubevirt.VirtualMachine) { v.Finalizers = nil })
	w.userError(err)
}

func (w *World) removeInstanceFinalizers(name string) {
	w.tracef("user: remove the finalizers of VMI %s", name)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(v *kubevirt.VirtualMachineInstance) { v.Finalizers = nil })
	w.userError(err)
}

// relabelInstance gives an instance of the set another label, so that the set releases it.
func (w *World) relabelInstance() {
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		if metav1.GetControllerOf(v) == nil || v.DeletionTimestamp != nil {
			continue
		}
		w.victim = v.Namespace + "/" + v.Name
		w.tracef("user: relabel %s, which the set releases", v.Name)
		_, err := kube.Edit(w.Kube, Namespace, v.Name, "", func(v *kubevirt.VirtualMachineInstance) {
			v.Labels = map[string]string{"set": "aside"}
		})
		w.userError(err)
		return
	}
}

// deleteNamespace deletes the namespace of all stories, with everything in it.
func (w *World) deleteNamespace() {
	w.tracef("user: delete namespace %s", Namespace)
	w.userError(kube.Terminate(w.Kube, Namespace))
}
