package world

import (
	"fmt"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// RandomSteps returns a scenario of arbitrary steps. Once they are over and the cluster is whole again, every machine
// must reach the state that its run strategy asks for.
func RandomSteps(steps []func(*World)) Scenario {
	return Scenario{
		Name: "random-steps",
		Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			for _, s := range steps {
				s(w)
			}
			for _, name := range []string{"node1", "node2"} {
				w.InService(name)
				if !w.hosts[name].isAlive() {
					w.Return(name)
				}
			}
			w.StartCRDWatch()
			w.unpause(vm)
		},
		Want: settled,
	}
}

// settled checks that no machine is between two states.
func settled(w *World) error {
	if v := w.VM(vm); v != nil {
		switch *v.Spec.RunStrategy {
		case kubevirt.RunStrategyManual, kubevirt.RunStrategyRerunOnFailure:
			if err := consistent(w, v); err != nil {
				return err
			}
		default:
			if err := wantDesired(vm)(w); err != nil {
				return err
			}
		}
	}
	if s := w.Set(set); s != nil {
		return scaled(int(*s.Spec.Replicas))(w)
	}
	return nil
}

// consistent checks that a VM's status matches its domains, where its run strategy permits both on and off.
func consistent(w *World, v *kubevirt.VirtualMachine) error {
	n, said := w.Domains(key), v.Status.PrintableStatus
	// As in KubeVirt, instances that never ran show as CrashLoopBackOff also where the strategy does not start them
	// again.
	off := said == kubevirt.VirtualMachineStatusStopped || said == kubevirt.VirtualMachineStatusCrashLoopBackOff
	if said == kubevirt.VirtualMachineStatusRunning && n == 1 || off && n == 0 {
		return nil
	}
	return fmt.Errorf("VM %s says %q and has %d domains", v.Name, said, n)
}

// unpause waits until the status of a paused guest is Paused, and unpauses the guest.
func (w *World) unpause(name string) {
	w.Until(w.patience(), func() bool { return statusMatches(w, name) == nil })
	if err := statusMatches(w, name); err != nil {
		w.breakf("%v%s", err, w.state())
	}
	held := func() bool { l := w.Launcher(name); return l != nil && l.domain.State == contract.DomainPaused }
	if held() {
		w.requestUntil(name, contract.OperationUnpause, 0, func() bool { return !held() })
	}
}

// StopCRDWatch ends crdwatch's leadership, without a successor.
func (w *World) StopCRDWatch() {
	w.tracef("crdwatch: gone")
	w.delivery.down = true
}

// StartCRDWatch starts a new leader.
func (w *World) StartCRDWatch() {
	w.tracef("crdwatch: leads")
	w.delivery.relist()
}

// GuestPowersOff shuts the guest of a VM down from within.
func (w *World) GuestPowersOff(name string) {
	if l := w.Launcher(name); l != nil && l.host.powered {
		l.powersOff()
	}
}

// GuestPanics lets the guest of a VM panic.
func (w *World) GuestPanics(name string) {
	if l := w.Launcher(name); l != nil && l.host.powered {
		l.panics()
	}
}
