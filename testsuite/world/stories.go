package world

import (
	"fmt"
	"time"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Scenarios returns the stories of the fault matrix.
func Scenarios() []Scenario {
	var all []Scenario
	all = append(all, lifecycles()...)
	all = append(all, deletions()...)
	all = append(all, superseded()...)
	all = append(all, nodeStories()...)
	all = append(all, setStories()...)
	all = append(all, controlStories()...)
	all = append(all, operationStories()...)
	all = append(all, migrationStories()...)
	all = append(all, drainStories()...)
	all = append(all, claimStories()...)
	all = append(all, importStories()...)
	all = append(all, coverageStories()...)
	return all
}

func lifecycles() []Scenario {
	return []Scenario{
		{Name: "start", Story: func(w *World) { w.Create(Machine(vm, kubevirt.RunStrategyAlways)) },
			Want: wantRunning(vm)},
		{Name: "stop", Story: func(w *World) {
			up(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: wantStopped(vm)},
		{Name: "stop-forced", Options: Options{Guests: map[string]Guest{key: {ShutsDownIn: -1}}},
			Story: func(w *World) {
				m, long := Machine(vm, kubevirt.RunStrategyAlways), int64(12*60*60)
				m.Spec.Template.Spec.TerminationGracePeriodSeconds = &long
				w.Create(m)
				w.Until(w.patience(), func() bool { return wantRunning(vm)(w) == nil })
				w.SetStrategy(vm, kubevirt.RunStrategyHalted)
				w.Sleep(8 * time.Second)
				w.Force(vm)
			}, Want: wantStopped(vm)},
		{Name: "start-requested", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyHalted))
			w.Sleep(5 * time.Second)
			w.Request(vm, kubevirt.StartRequest)
		}, Want: wantRunning(vm)},
		{Name: "restart", Story: func(w *World) { up(w); w.Restart(vm) }, Want: restarted},
		{Name: "guest-panics", Story: func(w *World) {
			up(w)
			if l := w.Launcher(vm); l != nil {
				l.panics()
			}
		}, Want: restarted},
		{Name: "guest-powers-off", Story: func(w *World) {
			up(w)
			if l := w.Launcher(vm); l != nil {
				l.powersOff()
			}
		}, Want: restarted},
		{Name: "crash-loop", Options: Options{Guests: map[string]Guest{key: {Refused: "no such machine type"}}},
			Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				w.Until(w.patience(), func() bool {
					v := w.VM(vm)
					return v != nil && v.Status.StartFailure != nil &&
						v.Status.StartFailure.ConsecutiveFailCount >= 3 &&
						v.Status.PrintableStatus == kubevirt.VirtualMachineStatusCrashLoopBackOff
				})
				w.Guests = nil
			}, Want: wantRunning(vm)},
		{Name: "once", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyOnce))
			w.Until(w.patience(), func() bool { return wantRunning(vm)(w) == nil })
			if l := w.Launcher(vm); l != nil {
				l.powersOff()
			}
		}, Want: func(w *World) error {
			if v := w.VMI(vm); v == nil || v.Status.Phase != kubevirt.Succeeded {
				return fmt.Errorf("the instance that has ended is gone; it is to stay for users to see")
			}
			return nil
		}},
		{Name: "instance", Story: func(w *World) { w.CreateInstance(vm) }, Want: wantInstanceRunning(vm)},
		{Name: "unschedulable", Story: func(w *World) {
			w.cordon(true)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.waitForStatus(kubevirt.VirtualMachineStatusUnschedulable)
			w.cordon(false)
		}, Want: wantRunning(vm)},
		{Name: "pod-deleted", Story: func(w *World) { up(w); w.DeletePod(vm, nil) }, Want: restarted},
		{Name: "pod-deleted-by-force", Story: func(w *World) {
			up(w)
			zero := int64(0)
			w.DeletePod(vm, &zero)
		}, Want: restarted},
		{Name: "worker-crashes", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(40 * time.Millisecond)
			w.Crash()
			w.Sleep(1500 * time.Millisecond)
			w.Crash()
		}, Want: wantRunning(vm)},
	}
}

// restarted wants the VM to run, in its second domain or a later one.
func restarted(w *World) error {
	if w.Started[key] < 2 {
		return fmt.Errorf("VM %s has had %d domains so far", vm, w.Started[key])
	}
	return wantRunning(vm)(w)
}

func deletions() []Scenario {
	var all []Scenario
	for _, d := range []time.Duration{0, 30, 60, 150, 400, 750, 1000, 1400, 8000} {
		d *= time.Millisecond
		all = append(all, Scenario{Name: "delete-at-" + d.String(), Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			if d > 0 {
				w.Sleep(d)
			}
			w.Delete(vm)
		}, Want: wantGone(vm)})
	}
	return append(all,
		Scenario{Name: "delete-stopping", Story: func(w *World) {
			up(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
			down(w)
			w.Delete(vm)
		}, Want: wantGone(vm)},
		Scenario{Name: "delete-stopped", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyHalted))
			w.Sleep(5 * time.Second)
			w.Delete(vm)
		}, Want: wantGone(vm)},
		Scenario{Name: "delete-stubborn", Options: Options{Guests: map[string]Guest{key: {ShutsDownIn: -1}}},
			Story: func(w *World) {
				up(w)
				w.Delete(vm)
			}, Want: wantGone(vm)},
		Scenario{Name: "delete-instance", Story: func(w *World) {
			w.CreateInstance(vm)
			w.Until(w.patience(), func() bool { return wantInstanceRunning(vm)(w) == nil })
			w.DeleteInstance(vm)
		}, Want: wantGone(vm)},
		Scenario{Name: "delete-and-make-again", Story: func(w *World) {
			up(w)
			w.Delete(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: wantRunning(vm)},
		Scenario{Name: "delete-orphaning", Story: func(w *World) { up(w); w.DeleteOrphaning(vm) }, Want: orphanedRuns},
		Scenario{Name: "delete-orphaning-stopping", Story: func(w *World) {
			up(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
			down(w)
			w.DeleteOrphaning(vm)
		}, Want: wantGone(vm)},
		Scenario{Name: "delete-orphaning-and-make-again", Story: func(w *World) {
			up(w)
			w.DeleteOrphaning(vm)
			w.Until(w.patience(), func() bool { return w.VM(vm) == nil })
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
		}, Want: runsInSameDomain},
	)
}

// runsInSameDomain wants the VM to run, in the domain that it had when it was orphaned.
func runsInSameDomain(w *World) error {
	if w.Started[key] > 1 {
		return fmt.Errorf("the guest that was orphaned was started again")
	}
	// A VM that is deleted before the answer to its adoption has arrived gives the instance back.
	if id := w.openTransition(contract.VMID(Namespace, vm)); id != "" {
		return fmt.Errorf("%s is open", id)
	}
	return wantRunning(vm)(w)
}

// orphanedRuns wants the VM to be gone, and its guest to run in the same domain.
func orphanedRuns(w *World) error {
	if w.VM(vm) != nil || w.Started[key] > 1 {
		return fmt.Errorf("VM %s must be deleted while its guest keeps running; the guest has had %d domains", vm,
			w.Started[key])
	}
	return wantInstanceRunning(vm)(w)
}

func superseded() []Scenario {
	return []Scenario{
		{Name: "halt-during-start", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(700 * time.Millisecond)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: wantStopped(vm)},
		{Name: "start-during-stop", Story: func(w *World) {
			up(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
			down(w)
			w.SetStrategy(vm, kubevirt.RunStrategyAlways)
		}, Want: wantRunning(vm)},
		{Name: "delete-during-restart", Story: func(w *World) {
			up(w)
			w.Restart(vm)
			down(w)
			w.Delete(vm)
		}, Want: wantGone(vm)},
		{Name: "halt-during-restart", Story: func(w *World) {
			up(w)
			w.Restart(vm)
			down(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
			// The restart's start request may be pending: it changes a halted machine to run always.
		}, Want: wantDesired(vm)},
		{Name: "undecided", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			for range 4 {
				w.Sleep(900 * time.Millisecond)
				w.SetStrategy(vm, kubevirt.RunStrategyHalted)
				w.Sleep(300 * time.Millisecond)
				w.SetStrategy(vm, kubevirt.RunStrategyAlways)
			}
		}, Want: wantRunning(vm)},
	}
}

// guestsNode returns the node of the VM's guest; node1 where it does not run.
func (w *World) guestsNode() string {
	if l := w.Launcher(vm); l != nil {
		return l.host.name
	}
	return "node1"
}

func nodeStories() []Scenario {
	return []Scenario{
		{Name: "node-cut-off-shortly", Story: func(w *World) {
			up(w)
			node := w.guestsNode()
			w.Cut(node)
			w.Sleep(2 * time.Minute)
			w.Return(node)
		}, Want: func(w *World) error {
			if w.Started[key] > 1 {
				return fmt.Errorf("the guest, which ran all the time, was started again")
			}
			return wantRunning(vm)(w)
		}},
		{Name: "node-cut-off-for-long", Story: func(w *World) {
			up(w)
			node := w.guestsNode()
			w.Cut(node)
			w.Sleep(15 * time.Minute)
			w.Return(node)
		}, Want: restarted},
		{Name: "node-loses-power", Story: func(w *World) {
			up(w)
			node := w.guestsNode()
			w.PowerOff(node)
			w.Sleep(10 * time.Minute)
			w.Return(node)
		}, Want: restarted},
		{Name: "node-fenced", Story: func(w *World) {
			up(w)
			node := w.guestsNode()
			w.PowerOff(node)
			w.Sleep(8 * time.Minute)
			w.OutOfService(node)
		}, Want: restarted},
		{Name: "node-lost-while-starting", Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.Sleep(850 * time.Millisecond)
			w.Cut("node1")
			w.Sleep(20 * time.Minute)
			w.Return("node1")
		}, Want: wantRunning(vm)},
		{Name: "node-worker-restarts", Story: func(w *World) {
			up(w)
			w.RestartWorker(w.guestsNode())
			w.Sleep(time.Second)
			w.Restart(vm)
		}, Want: restarted},
	}
}
