package world

import (
	"fmt"
	"time"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// thawAfter is how long guests are frozen for in stories; longer than an operation is tried for.
const thawAfter = 40 * time.Second

// talkative has a guest with an agent.
func talkative() Options {
	return Options{Guests: map[string]Guest{key: {AgentConnects: time.Second}}}
}

func domainPaused(w *World) bool {
	l := w.Launcher(vm)
	return l != nil && l.domain.State == contract.DomainPaused
}

// paused has the VM's guest run, and then paused.
func paused(w *World) {
	up(w)
	w.urge(vm, contract.OperationPause, 0, func() bool { return domainPaused(w) })
}

// staysPaused wants the VM to be paused, and to say so.
func staysPaused(w *World) error {
	v := w.VM(vm)
	switch {
	case !domainPaused(w):
		return fmt.Errorf("the guest is not paused")
	case w.Started[key] != 1:
		return fmt.Errorf("the guest was started %d times", w.Started[key])
	case v == nil || v.Status.PrintableStatus != kubevirt.VirtualMachineStatusPaused || v.Status.Ready:
		return fmt.Errorf("VM %s does not say that it is paused", vm)
	}
	return nil
}

// pressed wants the guest to have been reset or rebooted at least so often, and to run on in the same domain.
func pressed(times int) func(*World) error {
	return func(w *World) error {
		if w.Pressed[key] < times {
			return fmt.Errorf("the guest was reset or rebooted %d times, wanted are %d", w.Pressed[key], times)
		}
		if w.Started[key] != 1 {
			return fmt.Errorf("the guest was started %d times: a reset is no start", w.Started[key])
		}
		return runs(vm)(w)
	}
}

// press presses the reset button until that is done.
func press(w *World, o contract.Operation) {
	w.urge(vm, o, 0, func() bool { return w.Pressed[key] > 0 })
}

func operationStories() []Scenario {
	return []Scenario{
		{Name: "pause-unpause", Story: func(w *World) {
			paused(w)
			// Where etcd was put back to before the guest, no object asks for a pause.
			w.Until(w.patience(), func() bool { return staysPaused(w) == nil || !domainPaused(w) })
			w.ask(vm, contract.OperationPause, "again")
			w.urge(vm, contract.OperationUnpause, 0, func() bool { return !domainPaused(w) })
		}, Want: func(w *World) error {
			if w.Started[key] != 1 {
				return fmt.Errorf("the guest was started %d times", w.Started[key])
			}
			return runs(vm)(w)
		}},
		{Name: "freeze-and-thaw", Options: talkative(), Story: func(w *World) {
			up(w)
			w.urge(vm, contract.OperationFreeze, thawAfter, func() bool { return w.Frozen[key] > 0 })
			w.Until(thawAfter/2, func() bool { v := w.VMI(vm); return v != nil && v.Status.FSFreezeStatus == "frozen" })
			w.RestartWorker(w.guestsNode())
		}, Want: func(w *World) error {
			if l := w.Launcher(vm); w.Frozen[key] == 0 || l == nil || l.domain.Frozen {
				return fmt.Errorf("the guest was not frozen, or has not thawed")
			}
			return runs(vm)(w)
		}},
		{Name: "stopped-while-paused", Story: func(w *World) {
			paused(w)
			w.SetStrategy(vm, kubevirt.RunStrategyHalted)
		}, Want: stopped(vm)},
		{Name: "node-worker-dies-pausing", Story: func(w *World) {
			up(w)
			w.Operate(vm, contract.OperationPause, "first", 0)
			w.Sleep(28 * time.Millisecond)
			w.RestartWorker(w.guestsNode())
			w.Sleep(doneTimeout)
			w.urge(vm, contract.OperationPause, 0, func() bool { return domainPaused(w) })
		}, Want: staysPaused},
		{Name: "launcher-hangs", Story: func(w *World) {
			up(w)
			w.hang(vm, true)
			w.ask(vm, contract.OperationReset, "first")
			if w.Pressed[key] > 0 {
				w.breakf("a launcher that hangs has reset its guest")
			}
			w.hang(vm, false)
			press(w, contract.OperationReset)
		}, Want: pressed(1)},
		{Name: "control-worker-dies-rebooting", Options: talkative(), Story: func(w *World) {
			up(w)
			w.Operate(vm, contract.OperationSoftReboot, "first", 0)
			w.Sleep(20 * time.Millisecond)
			w.Crash()
			w.Sleep(doneTimeout)
			press(w, contract.OperationSoftReboot)
		}, Want: pressed(1)},
		{Name: "same-request-twice", Options: Options{AlwaysAnew: true}, Story: func(w *World) {
			up(w)
			// At the moments around those at which the run ends: as soon as it is settled after the first one.
			for i := range 12 {
				w.Operate(vm, contract.OperationReset, "same", 0)
				w.Sleep(time.Duration(1+i%5*4) * time.Millisecond)
			}
			w.Sleep(doneTimeout)
			w.ask(vm, contract.OperationReset, "same")
			press(w, contract.OperationReset)
		}, Want: pressed(1)},
	}
}
