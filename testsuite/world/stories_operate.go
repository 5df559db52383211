package world

import (
	"fmt"
	"time"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// thawAfter is how long guests are frozen in stories: longer than an operation is retried.
const thawAfter = 40 * time.Second

// withAgent configures a guest with an agent.
func withAgent() Options {
	return Options{Guests: map[string]Guest{key: {AgentConnects: time.Second}}}
}

func domainPaused(w *World) bool {
	l := w.Launcher(vm)
	return l != nil && l.domain.State == contract.DomainPaused
}

// paused starts the VM's guest and pauses it.
func paused(w *World) {
	up(w)
	w.requestUntil(vm, contract.OperationPause, 0, func() bool { return domainPaused(w) })
}

// staysPaused wants the guest and the VM's status to be paused.
func staysPaused(w *World) error {
	v := w.VM(vm)
	switch {
	case !domainPaused(w):
		return fmt.Errorf("the guest is not paused")
	case w.Started[key] != 1:
		return fmt.Errorf("the guest was started %d times", w.Started[key])
	case v == nil || v.Status.PrintableStatus != kubevirt.VirtualMachineStatusPaused || v.Status.Ready:
		return fmt.Errorf("VM %s has no status Paused", vm)
	}
	return nil
}

// wasReset wants the guest to have been reset or rebooted at least so often, and to run on in the same domain.
func wasReset(times int) func(*World) error {
	return func(w *World) error {
		if w.Pressed[key] < times {
			return fmt.Errorf("the guest was reset or rebooted %d times, wanted are %d", w.Pressed[key], times)
		}
		if w.Started[key] != 1 {
			return fmt.Errorf("the guest was started %d times: a reset is no start", w.Started[key])
		}
		return wantRunning(vm)(w)
	}
}

// pressReset requests a reset or reboot until it is done.
func pressReset(w *World, o contract.Operation) {
	w.requestUntil(vm, o, 0, func() bool { return w.Pressed[key] > 0 })
}

func operationStories() []Scenario {
	return []Scenario{
		{Name: "pause-unpause", Story: func(w *World) {
			paused(w)
			// Where etcd was put back to a copy before the guest, no object asks for a pause.
			w.Until(w.patience(), func() bool { return staysPaused(w) == nil || !domainPaused(w) })
			w.ask(vm, contract.OperationPause, "again")
			w.requestUntil(vm, contract.OperationUnpause, 0, func() bool { return !domainPaused(w) })
		}, Want: func(w *World) error {
			if w.Started[key] != 1 {
				return fmt.Errorf("the guest was started %d times", w.Started[key])
			}
			return wantRunning(vm)(w)
		}},
		{Name: "freeze-and-thaw", Options: withAgent(), Story: func(w *World) {
			up(w)
			w.requestUntil(vm, contract.OperationFreeze, thawAfter, func() bool { return w.Frozen[key] > 0 })
			w.Until(thawAfter/2, func() bool { v := w.VMI(vm); return v != nil && v.Status.FSFreezeStatus == "frozen" })
			w.RestartWorker(w.guestsNode())
		}, Want: func(w *World) error {
			if l := w.Launcher(vm); w.Frozen[key] == 0 || l == nil || l.domain.Frozen {
				return fmt.Errorf("the guest was not frozen, or has not thawed")
			}
			return wantRunning(vm)(w)
		}},
		{Name: "stopped-while-paused", Story: func(w *World) {
			paused(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: wantStopped(vm)},
		{Name: "node-worker-dies-pausing", Story: func(w *World) {
			up(w)
			w.Operate(vm, contract.OperationPause, "first", 0)
			w.Sleep(28 * time.Millisecond)
			w.RestartWorker(w.guestsNode())
			w.Sleep(doneTimeout)
			w.requestUntil(vm, contract.OperationPause, 0, func() bool { return domainPaused(w) })
		}, Want: staysPaused},
		{Name: "launcher-hangs", Story: func(w *World) {
			up(w)
			w.hang(vm, true)
			w.ask(vm, contract.OperationReset, "first")
			if w.Pressed[key] > 0 {
				w.breakf("a launcher that hangs has reset its guest")
			}
			w.hang(vm, false)
			pressReset(w, contract.OperationReset)
		}, Want: wasReset(1)},
		{Name: "control-worker-dies-rebooting", Options: withAgent(), Story: func(w *World) {
			up(w)
			w.Operate(vm, contract.OperationSoftReboot, "first", 0)
			w.Sleep(20 * time.Millisecond)
			w.Crash()
			w.Sleep(doneTimeout)
			pressReset(w, contract.OperationSoftReboot)
		}, Want: wasReset(1)},
		{Name: "same-request-twice", Options: Options{AlwaysContinueAsNew: true}, Story: func(w *World) {
			up(w)
			// The requests fall around the moment at which the run continues as new, as soon as it is settled after the
			// first one.
			for i := range 12 {
				w.Operate(vm, contract.OperationReset, "same", 0)
				w.Sleep(time.Duration(1+i%5*4) * time.Millisecond)
			}
			w.Sleep(doneTimeout)
			w.ask(vm, contract.OperationReset, "same")
			pressReset(w, contract.OperationReset)
		}, Want: wasReset(1)},
	}
}
